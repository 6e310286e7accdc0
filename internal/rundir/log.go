package rundir

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Log is a JSONL file of steps that is only appended to. A line is one write; a write that fails is taken back.
type Log struct {
	f     *os.File
	size  int64 // up to here the file consists of whole lines
	write func([]byte) (int, error)
}

// OpenLog opens or creates a log and cuts it after step: lines of later steps, and a torn last line, are dropped.
func OpenLog(path string, step int) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{f: f, write: f.Write}
	l.size, err = goodPart(f, step)
	if err == nil {
		err = f.Truncate(l.size)
	}
	if err == nil {
		_, err = f.Seek(l.size, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open log %s: %w", path, err), f.Close())
	}
	return l, nil
}

// goodPart is the length of the file up to the first line that is torn or belongs to a later step.
func goodPart(f *os.File, step int) (int64, error) {
	r := bufio.NewReader(f)
	var size int64
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return 0, err
		}
		var entry struct {
			Step int `json:"step"`
		}
		if json.Unmarshal(line, &entry) != nil || entry.Step > step {
			return size, nil
		}
		size += int64(len(line))
	}
}

// Append writes one line. After an error the file is as it was before.
func (l *Log) Append(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("append to %s: %w", l.f.Name(), err)
	}
	line = append(line, '\n')
	if _, err := l.write(line); err != nil {
		_, seek := l.f.Seek(l.size, io.SeekStart)
		return fmt.Errorf("append to %s: %w", l.f.Name(), errors.Join(err, l.f.Truncate(l.size), seek))
	}
	l.size += int64(len(line))
	return nil
}

// Close flushes the log to disk.
func (l *Log) Close() error { return errors.Join(l.f.Sync(), l.f.Close()) }
