package adoption

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// write writes a piece of a staged file. Others of the session may have put
// something in its place since the last piece: what is no regular file is not
// waited for.
func (w *writer) write(s *Step) error {
	_, stage, err := w.staged(s)
	if err != nil {
		return err
	}
	if s.Data < 0 || s.Data > len(w.req.Data) {
		return unix.EINVAL
	}
	data := w.req.Data[:s.Data]
	w.req.Data = w.req.Data[s.Data:]
	flags := uint64(unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY)
	mode := uint64(0)
	if s.New {
		flags, mode = flags|unix.O_CREAT|unix.O_EXCL, 0o600
	}
	fd, err := openat2(stage, strconv.Itoa(s.N), flags, mode, beneath)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 {
		return errOvertaken
	}
	for at := s.At; len(data) > 0; {
		n, err := unix.Pwrite(fd, data, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data, at = data[n:], at+int64(n)
	}
	if s.Attr == nil {
		return nil
	}
	if s.Attr.Size != s.At+int64(s.Data) { // it ends in a hole
		if err := unix.Ftruncate(fd, s.Attr.Size); err != nil {
			return err
		}
	}
	return s.Attr.give(fd)
}

// special makes a staged file that has no content.
func (w *writer) special(s *Step) error {
	_, stage, err := w.staged(s)
	if err != nil {
		return err
	}
	name := strconv.Itoa(s.N)
	switch s.Do {
	case Symlink:
		if err := unix.Symlinkat(string(s.Target), stage, name); err != nil {
			return err
		}
		return s.Attr.stamp(stage, name)
	case FIFO:
		err = unix.Mknodat(stage, name, unix.S_IFIFO|0o600, 0)
	case Socket:
		err = unix.Mknodat(stage, name, unix.S_IFSOCK|0o600, 0)
	}
	if err != nil {
		return err
	}
	fd, err := openat2(stage, name, unix.O_PATH|unix.O_NOFOLLOW, 0, beneath)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return s.Attr.give(fd)
}

// set gives what is at a path its attributes.
func (w *writer) set(s *Step, a *Attr) error {
	if a == nil {
		return unix.EINVAL
	}
	_, dir, base, err := w.at(s)
	if err != nil {
		return err
	}
	fd, err := openat2(dir, base, unix.O_PATH|unix.O_NOFOLLOW, 0, beneath)
	if err != nil {
		return moved(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if !s.Was.is(&st) {
		return errOvertaken
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return a.stamp(dir, base)
	}
	return a.give(fd)
}

// give gives what is held its attributes: times last, which the others change.
func (a *Attr) give(fd int) error {
	held := "/proc/self/fd/" + strconv.Itoa(fd)
	if !a.AnyXattrs {
		if err := a.giveXattrs(held); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&0o7777 != a.Mode&0o7777 {
		if err := unix.Chmod(held, a.Mode&0o7777); err != nil {
			return err
		}
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if st.Mode&0o7777 != a.Mode&0o7777 {
			return unix.EPERM // the kernel drops setgid without a word
		}
	}
	if !a.Times {
		return nil
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, held, a.times(), 0)
}

func (a *Attr) times() []unix.Timespec {
	return []unix.Timespec{unix.NsecToTimespec(a.Atime), unix.NsecToTimespec(a.Mtime)}
}

// stamp gives a symbolic link its times.
func (a *Attr) stamp(dir int, name string) error {
	if a == nil || !a.Times {
		return nil
	}
	return unix.UtimesNanoAt(dir, name, a.times(), unix.AT_SYMLINK_NOFOLLOW)
}

// giveXattrs makes the extended attributes those of a, as far as a program can
// set them.
func (a *Attr) giveXattrs(held string) error {
	wanted := make(map[string]bool)
	for _, x := range a.Xattrs {
		wanted[string(x.Name)] = true
		if err := unix.Setxattr(held, string(x.Name), x.Value, 0); err != nil {
			return err
		}
	}
	n, err := unix.Listxattr(held, nil)
	if n == 0 || err == unix.EOPNOTSUPP {
		return nil
	}
	list := make([]byte, 64<<10) // the kernel's bound
	if n, err = unix.Listxattr(held, list); err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00") {
		ours := strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.") || strings.HasPrefix(name, "system.posix_acl_")
		if !ours || wanted[name] {
			continue
		}
		if err := unix.Removexattr(held, name); err != nil && err != unix.ENODATA {
			return err
		}
	}
	return nil
}
