package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A lock is the kernel's (flock), which no crash can leave behind on one machine. Between machines that share a disk
// without passing flock on, the file's owner and its heartbeat decide.
const (
	heartbeat = 20 * time.Second
	staleAge  = 2 * time.Minute
)

// holder is the lock file's content.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

func (h holder) String() string { return fmt.Sprintf("process %d on host %s", h.PID, h.Host) }

// InUseError says that another process holds the directory.
type InUseError struct {
	Dir    string
	Holder string // "process 12 on host a"
	Since  time.Time
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("run directory %s is in use by %s since %s", e.Dir, e.Holder, e.Since.Format(time.DateTime))
}

type lock struct {
	f    *os.File
	stop chan struct{}
	done chan struct{}
}

func acquire(path string) (*lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock run directory: %w", err)
	}
	host, err := os.Hostname()
	if err == nil {
		err = claim(f, host)
	}
	me := holder{PID: os.Getpid(), Host: host, Since: time.Now().Truncate(time.Second)}
	if err == nil {
		err = me.write(f)
	}
	if err != nil {
		var inUse *InUseError
		if !errors.As(err, &inUse) {
			err = fmt.Errorf("lock run directory: %w", err)
		}
		return nil, errors.Join(err, f.Close())
	}
	l := &lock{f: f, stop: make(chan struct{}), done: make(chan struct{})}
	go l.beat(me)
	return l, nil
}

// claim takes the kernel's lock and looks at who held the directory before.
func claim(f *os.File, host string) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	var old holder
	text, _ := io.ReadAll(io.NewSectionReader(f, 0, 4096))
	known := json.Unmarshal(text, &old) == nil
	dir := filepath.Dir(f.Name())
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		if !known { // between the other's flock and its first write
			return &InUseError{Dir: dir, Holder: "another process", Since: time.Now()}
		}
		return &InUseError{Dir: dir, Holder: old.String(), Since: old.Since}
	case err != nil:
		return err
	case !known: // never held, or given back
		return nil
	case old.Host == host:
		slog.Info("took over a run directory that a dead process held", "dir", dir, "holder", old.String())
		return nil
	}
	age, err := sinceWrite(f)
	if err != nil {
		return err
	}
	if age < staleAge {
		return fmt.Errorf("%w (if that one is dead, wait %s)",
			&InUseError{Dir: dir, Holder: old.String(), Since: old.Since}, (staleAge - age).Round(time.Second))
	}
	slog.Info("took over a run directory whose holder gives no sign of life", "dir", dir, "holder", old.String(), "silent", age.Round(time.Second))
	return nil
}

// sinceWrite is the lock file's age by the clock of the disk it lies on: machines' clocks differ.
func sinceWrite(f *os.File) (time.Duration, error) {
	probe, err := os.CreateTemp(filepath.Dir(f.Name()), ".clock.*.tmp")
	if err != nil {
		return 0, err
	}
	defer os.Remove(probe.Name())
	defer probe.Close()
	if _, err := probe.Write([]byte{0}); err != nil {
		return 0, err
	}
	now, err := probe.Stat()
	if err != nil {
		return 0, err
	}
	last, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return now.ModTime().Sub(last.ModTime()), nil
}

func (h holder) write(f *os.File) error {
	text, _ := json.Marshal(h) // numbers and strings always marshal
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(append(text, '\n'), 0)
	return err
}

// beat shows other machines that the holder lives.
func (l *lock) beat(me holder) {
	defer close(l.done)
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			if err := me.write(l.f); err != nil {
				slog.Warn("cannot refresh the run directory's lock", "file", l.f.Name(), "error", err)
			}
		}
	}
}

// release empties the file: an empty lock was given back, one with content was left by a crash.
func (l *lock) release() error {
	if l.f == nil {
		return nil
	}
	close(l.stop)
	<-l.done
	err := errors.Join(l.f.Truncate(0), l.f.Close())
	l.f = nil
	return err
}
