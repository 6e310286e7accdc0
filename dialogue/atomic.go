package dialogue

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// AtomicWrite writes a whole file so that a reader, or the machine after a crash, sees the old file or the new one
// and nothing between: a temporary file beside it, flushed to disk, then renamed. After an error the old file stands
// and the temporary one is gone. A symbolic link stays one, its target is replaced. What is no regular file, a device or
// a pipe, is written in place.
func AtomicWrite(path string, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	file, special, err := target(path)
	if err != nil {
		return err
	}
	if special {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(buffered(f, write), f.Close())
	}
	f, err := createTemp(file)
	if err != nil {
		return err
	}
	err = buffered(f, write)
	if err == nil {
		err = f.Chmod(0o644) // CreateTemp's 0600 would keep the group from reading results
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(file))
}

// CheckWrite tells before the work whether AtomicWrite will find a place for its result. It leaves nothing behind.
func CheckWrite(path string) error {
	file, special, err := target(path)
	if err == nil && special {
		const writable = 2 // W_OK of access(2)
		err = syscall.Access(file, writable)
	} else if err == nil {
		var f *os.File
		if f, err = createTemp(file); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// target is the file that a path leads to, and whether it is there and no regular one.
func target(path string) (file string, special bool, err error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return "", false, syscall.EISDIR
	case err == nil && !info.Mode().IsRegular():
		return path, true, nil
	case err == nil:
		file, err = filepath.EvalSymlinks(path)
		return file, false, err
	case !errors.Is(err, fs.ErrNotExist):
		return "", false, err
	}
	for { // a link that leads nowhere yet; Stat has seen that links do not go round
		next, err := os.Readlink(path)
		if err != nil {
			return path, false, nil
		}
		if !filepath.IsAbs(next) {
			next = filepath.Dir(path) + "/" + next
		}
		path = next
	}
}

func createTemp(file string) (*os.File, error) {
	dir, base := filepath.Split(file)
	if dir == "" {
		dir = "."
	}
	return os.CreateTemp(dir, "."+base+".*.tmp")
}

func buffered(w io.Writer, write func(io.Writer) error) error {
	b := bufio.NewWriterSize(w, 1<<16)
	if err := write(b); err != nil {
		return err
	}
	return b.Flush()
}

// syncDir makes a rename or a new file's name durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
