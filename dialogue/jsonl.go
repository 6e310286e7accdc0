package dialogue

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// maxLine bounds one record: far above any dialogue with traces, far below what would exhaust memory.
const maxLine = 256 << 20

// Episodes reads records one by one, our own or published ones. It stops at the first bad line with an error that
// names file and line; name is the file's. Empty lines are skipped.
func Episodes(r io.Reader, name string) iter.Seq2[Episode, error] {
	return func(yield func(Episode, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 64<<10), maxLine)
		n := 0
		for lines.Scan() {
			n++
			line := lines.Bytes()
			if n == 1 {
				line = bytes.TrimPrefix(line, []byte("\ufeff"))
			}
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			ep, err := unmarshalEpisode(line)
			if err != nil {
				yield(Episode{}, fmt.Errorf("%s:%d: %w", name, n, err))
				return
			}
			if !yield(ep, nil) {
				return
			}
		}
		if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield(Episode{}, fmt.Errorf("%s:%d: line longer than %d MiB", name, n+1, maxLine>>20))
		} else if err != nil {
			yield(Episode{}, fmt.Errorf("%s:%d: %w", name, n+1, err))
		}
	}
}

// ReadEpisodes reads a whole file of records.
func ReadEpisodes(path string) ([]Episode, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read episodes: %w", err)
	}
	defer f.Close()
	var all []Episode
	for ep, err := range Episodes(f, path) {
		if err != nil {
			return nil, err
		}
		all = append(all, ep)
	}
	return all, nil
}

// WriteEpisodes writes a whole file of records atomically.
func WriteEpisodes(path string, episodes []Episode, opts WriteOptions) error {
	return AtomicWrite(path, func(w io.Writer) error {
		for i := range episodes {
			line, err := MarshalEpisode(&episodes[i], opts)
			if err != nil {
				return err
			}
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
		return nil
	})
}
