package dialogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// Appender adds records to a JSONL file and never leaves half a line behind: each record is one write, and a write
// that fails is taken back. A line torn by a crash is dropped, with a warning, when the file is opened again. Safe for
// many goroutines of one process.
type Appender struct {
	mu      sync.Mutex
	f       *os.File
	size    int64 // up to here the file consists of whole lines
	opts    WriteOptions
	dropped int64
	write   func([]byte) (int, error) // f.Write; tests put a failing disk here
}

// OpenAppender opens or creates a file for appending and repairs its end.
func OpenAppender(path string, opts WriteOptions) (*Appender, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("append episodes: %w", err)
	}
	a := &Appender{f: f, opts: opts, write: f.Write}
	if err := a.repair(); err != nil {
		return nil, errors.Join(fmt.Errorf("append to %s: %w", path, err), f.Close())
	}
	return a, nil
}

// repair leaves the file ending in a whole line, and the write position at its end.
func (a *Appender) repair() error {
	end, err := a.f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	tail, err := lastLine(a.f, end)
	if err != nil {
		return err
	}
	a.size = end - int64(len(tail))
	if len(tail) == 0 {
		return nil
	}
	if json.Valid(tail) { // whole but for its newline: a file written by other hands
		return a.put([]byte("\n"), end)
	}
	a.dropped = int64(len(tail))
	slog.Warn("dropped a torn last line", "file", a.f.Name(), "bytes", a.dropped)
	if err := a.f.Truncate(a.size); err != nil {
		return err
	}
	_, err = a.f.Seek(a.size, io.SeekStart)
	return err
}

// lastLine is what follows the last newline before end.
func lastLine(f *os.File, end int64) ([]byte, error) {
	var tail []byte
	chunk := make([]byte, 64<<10)
	for at := end; at > 0; {
		n := min(at, int64(len(chunk)))
		at -= n
		if _, err := f.ReadAt(chunk[:n], at); err != nil {
			return nil, err
		}
		i := bytes.LastIndexByte(chunk[:n], '\n')
		tail = append(bytes.Clone(chunk[i+1:n]), tail...)
		if i >= 0 {
			break
		}
	}
	return tail, nil
}

// Dropped is the length in bytes of the torn line that opening the file removed, 0 if it was whole.
func (a *Appender) Dropped() int64 { return a.dropped }

// Append adds one episode. After an error the file is as it was before.
func (a *Appender) Append(ep *Episode) error {
	line, err := MarshalEpisode(ep, a.opts)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.put(line, a.size); err != nil {
		return fmt.Errorf("append to %s: %w", a.f.Name(), err)
	}
	return nil
}

// put writes at the position at, or takes back what part of it was written.
func (a *Appender) put(line []byte, at int64) error {
	_, err := a.write(line)
	if err == nil {
		a.size = at + int64(len(line))
		return nil
	}
	_, seek := a.f.Seek(at, io.SeekStart)
	return errors.Join(err, a.f.Truncate(at), seek)
}

// Sync makes everything appended so far durable.
func (a *Appender) Sync() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.f.Sync()
}

// Close syncs and closes the file.
func (a *Appender) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return errors.Join(a.f.Sync(), a.f.Close())
}
