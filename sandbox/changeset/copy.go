package changeset

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copyData copies size bytes of src to dst, which is empty, and keeps holes. The
// file system shares the data if it can.
func copyData(ctx context.Context, dst, src *os.File, size int64) error {
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil {
		return dst.Truncate(size)
	}
	if err := dst.Truncate(size); err != nil {
		return err
	}
	for off := int64(0); off < size; {
		start, end, err := nextData(src, off, size)
		if err != nil {
			return err
		}
		if err := copyRange(ctx, dst, src, start, end); err != nil {
			return err
		}
		off = end
	}
	return nil
}

// nextData returns the next part of a file that is not a hole; size, size if
// there is none.
func nextData(f *os.File, off, size int64) (start, end int64, err error) {
	start, err = unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size, size, nil
	case errors.Is(err, unix.EINVAL): // the file system knows no holes
		return off, size, nil
	case err != nil:
		return 0, 0, os.NewSyscallError("lseek", err)
	}
	end, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
	switch {
	case errors.Is(err, unix.ENXIO) || err == nil && end <= start || start >= size:
		return size, size, nil // cut off meanwhile, which its stamp will tell
	case err != nil:
		return 0, 0, os.NewSyscallError("lseek", err)
	}
	return start, min(end, size), nil
}

// copyChunk bounds what is copied between two looks at the context.
const copyChunk = 16 << 20

func copyRange(ctx context.Context, dst, src *os.File, start, end int64) error {
	for off := start; off < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		in, out := off, off
		n, err := unix.CopyFileRange(int(src.Fd()), &in, int(dst.Fd()), &out, int(min(end-off, copyChunk)), 0)
		switch {
		case err == unix.EINTR:
		case err == unix.EXDEV || err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP || err == unix.EPERM:
			return copyByHand(ctx, dst, src, off, end)
		case err != nil:
			return os.NewSyscallError("copy_file_range", err)
		case n == 0:
			return nil // cut off meanwhile, which its stamp will tell
		default:
			off += int64(n)
		}
	}
	return nil
}

func copyByHand(ctx context.Context, dst, src *os.File, start, end int64) error {
	out := io.NewOffsetWriter(dst, start)
	var err error
	if e := eachBlock(ctx, io.NewSectionReader(src, start, end-start), func(b []byte) bool {
		_, err = out.Write(b)
		return err == nil
	}); e != nil {
		return e
	}
	return err
}
