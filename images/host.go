package images

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// A Rootfs is a root filesystem: a directory, which is never written, and what
// is mounted on it.
type Rootfs struct {
	Path   string
	Mounts []specs.Mount
}

// A User is who runs inside.
type User struct {
	UID, GID    uint32
	Name, Group string
	Home        string // absolute
}

// HostOptions say what the host's root filesystem is completed by.
type HostOptions struct {
	User User
	// Hostname is the name of the machine, as inside.
	Hostname string
	// GitConfig becomes /etc/gitconfig, when not empty.
	GitConfig string
	// Mountpoints are paths that will be mounted on, absolute and clean; those
	// below another mount are no concern of the root filesystem.
	Mountpoints []string
}

// The directories at the root of a machine that hold programs and libraries.
// Those that are links to others of them (/bin -> usr/bin) stay links.
var systemDirs = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "nix"}

// What of the host's /etc programs need and nobody minds: how to find
// libraries and alternatives, whom to trust, names of protocols and types, and
// the system-wide half of some languages' installations. Directories are
// mounted, files copied, links made again.
var hostEtc = []string{
	"alternatives", "ld.so.cache", "crypto-policies",
	"ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "pki/tls/certs", "pki/tls/cert.pem", "pki/ca-trust/extracted",
	"debian_version", "localtime", "locale.alias", "os-release", "redhat-release", "timezone",
	"magic", "magic.mime", "mime.types", "protocols", "rpc", "services", "shells",
	"fonts", "terminfo", "java-*", "maven", "perl", "python*",
}

// mostCopied is the largest file of /etc that is copied, in bytes.
const mostCopied = 4 << 20

// Host returns the machine's own root filesystem: /usr and its like read-only,
// a synthesized /etc, and empty directories to mount on. No /home, /root,
// /var, /run, /srv, /mnt, /media, /boot or /sys.
//
// What it puts together is kept below the directory cache under a name that
// depends on everything that goes into it, so the next session finds it ready.
// Several processes may call Host at once.
func Host(cache string, o HostOptions) (*Rootfs, error) {
	p, err := planHost("/", o)
	if err != nil {
		return nil, fmt.Errorf("the host's root filesystem: %w", err)
	}
	dir := filepath.Join(cache, p.digest())
	if _, err := os.Stat(dir); err != nil {
		if err := p.write(cache, dir); err != nil {
			return nil, fmt.Errorf("preparing the root filesystem: %w", err)
		}
	}
	return &Rootfs{Path: dir, Mounts: p.mounts}, nil
}

// A plan says what a root filesystem consists of before it is written.
type plan struct {
	entries []entry
	mounts  []specs.Mount
}

// An entry is a file, a link or a directory of the root filesystem.
type entry struct {
	path    string // relative
	mode    fs.FileMode
	content string // of a file, or where a link leads
	copyOf  string // a host file, instead of content
	stamp   string // what copyOf was like
}

func planHost(root string, o HostOptions) (*plan, error) {
	p := &plan{}
	for _, dir := range []string{"dev", "etc", "proc", "tmp"} {
		p.dir(dir)
	}
	for _, name := range systemDirs {
		if err := p.host(root, name, "/"+name); err != nil {
			return nil, err
		}
	}
	// A mount of its own, as others than the distribution write it.
	if info, err := os.Lstat(filepath.Join(root, "usr/local")); err == nil && info.IsDir() {
		p.mount(root, "usr/local", "/usr/local")
	}
	// NixOS finds its programs through this link into /nix.
	if target, err := os.Readlink(filepath.Join(root, "run/current-system")); err == nil {
		p.link("run/current-system", target)
	}
	names, err := etcNames(root)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := p.host(root, "etc/"+name, "/etc/"+name); err != nil {
			return nil, err
		}
	}
	p.etc(o)
	for _, m := range o.Mountpoints {
		if !p.mounted(m) {
			p.dir(strings.TrimPrefix(m, "/"))
		}
	}
	return p, nil
}

// etcNames lists what of hostEtc may be there.
func etcNames(root string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(root, "etc"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, pattern := range hostEtc {
		if !strings.Contains(pattern, "*") {
			names = append(names, pattern)
			continue
		}
		for _, e := range entries {
			if match, err := filepath.Match(pattern, e.Name()); err != nil {
				return nil, err
			} else if match {
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}

// mounted reports whether a path lies in what the host has there already.
func (p *plan) mounted(path string) bool {
	return slices.ContainsFunc(p.mounts, func(m specs.Mount) bool {
		return strings.HasPrefix(path, m.Destination+"/")
	})
}

// host takes over what the host has at a path, if anything.
func (p *plan) host(root, rel, dest string) error {
	src := filepath.Join(root, rel)
	info, err := os.Lstat(src)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		p.link(rel, target)
	case info.IsDir():
		p.dir(rel)
		p.mount(root, rel, dest)
	case info.Mode().IsRegular() && info.Size() <= mostCopied && info.Mode()&0o004 != 0:
		st := info.Sys().(*syscall.Stat_t)
		p.entries = append(p.entries, entry{
			path: rel, mode: 0o644, copyOf: src,
			stamp: fmt.Sprint(st.Dev, st.Ino, info.Size(), info.ModTime().UnixNano()),
		})
	}
	return nil
}

func (p *plan) mount(root, rel, dest string) {
	p.mounts = append(p.mounts, specs.Mount{
		Type: "bind", Source: filepath.Join(root, rel), Destination: dest,
		Options: []string{"rbind", "ro", "nosuid", "nodev"},
	})
}

func (p *plan) dir(path string) { p.entries = append(p.entries, entry{path: path, mode: fs.ModeDir}) }

func (p *plan) link(path, target string) {
	p.entries = append(p.entries, entry{path: path, mode: fs.ModeSymlink, content: target})
}

func (p *plan) file(path, content string) {
	p.entries = append(p.entries, entry{path: path, mode: 0o644, content: content})
}

// etc adds the files of /etc that are ours: who is who, and no name service but
// files.
func (p *plan) etc(o HostOptions) {
	var passwd, group strings.Builder
	u := o.User
	if u.UID != 0 {
		passwd.WriteString("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n")
	}
	fmt.Fprintf(&passwd, "%s:x:%d:%d::%s:/bin/bash\n", u.Name, u.UID, u.GID, u.Home)
	passwd.WriteString("nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")
	if u.GID != 0 {
		group.WriteString("root:x:0:\n")
	}
	fmt.Fprintf(&group, "%s:x:%d:\n", u.Group, u.GID)
	group.WriteString("tty:x:5:\nnogroup:x:65534:\n")

	p.file("etc/passwd", passwd.String())
	p.file("etc/group", group.String())
	p.file("etc/hostname", o.Hostname+"\n")
	p.file("etc/hosts", "127.0.0.1 localhost "+o.Hostname+"\n::1 localhost\n")
	p.file("etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\nrpc: files\n")
	if o.GitConfig != "" {
		p.file("etc/gitconfig", o.GitConfig)
	}
	p.link("etc/mtab", "/proc/self/mounts")
}

// digest names the plan by all that decides what is written.
func (p *plan) digest() string {
	var b bytes.Buffer
	for _, e := range p.entries {
		fmt.Fprintf(&b, "%q %v %q %q %q\n", e.path, e.mode, e.content, e.copyOf, e.stamp)
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:16])
}

// write makes the directory, or finds that another process did.
func (p *plan) write(cache, dir string) error {
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return err
	}
	sweep(cache)
	tmp := filepath.Join(cache, ".new-"+rand.Text())
	if err := mkdirs(cache, filepath.Base(tmp)); err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, e := range p.entries {
		if err := e.write(tmp); err != nil {
			return err
		}
	}
	err := os.Rename(tmp, dir)
	if err != nil {
		if _, statErr := os.Stat(dir); statErr == nil {
			return nil
		}
	}
	return err
}

// sweep removes what processes that were killed have left half-made. Making one
// takes milliseconds.
func sweep(cache string) {
	left, err := filepath.Glob(filepath.Join(cache, ".new-*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && time.Since(info.ModTime()) > time.Minute {
			os.RemoveAll(dir)
		}
	}
}

func (e *entry) write(root string) error {
	if e.mode.IsDir() {
		return mkdirs(root, e.path)
	}
	if err := mkdirs(root, filepath.Dir(e.path)); err != nil {
		return err
	}
	path := filepath.Join(root, e.path)
	if e.mode&fs.ModeSymlink != 0 {
		return os.Symlink(e.content, path)
	}
	content := io.Reader(strings.NewReader(e.content))
	if e.copyOf != "" {
		f, err := os.Open(e.copyOf)
		if err != nil {
			return err
		}
		defer f.Close()
		content = io.LimitReader(f, mostCopied)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, e.mode.Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, content); err != nil {
		f.Close()
		return err
	}
	// Whatever the umask is, the user inside must be able to read it.
	return errors.Join(f.Chmod(e.mode.Perm()), f.Close())
}

// mkdirs makes a directory below root and those above it, for all to enter.
func mkdirs(root, path string) error {
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		dir := filepath.Join(root, path[:i])
		if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}
