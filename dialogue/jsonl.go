package dialogue

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"unicode/utf8"
)

// maxLine bounds one line: far above any dialogue with traces, far below what would exhaust memory.
const maxLine = 256 << 20

// Line is one line of a JSONL file.
type Line struct {
	Where string // "file:line", for messages
	Text  []byte // trimmed, perhaps empty; good until the next line is read
}

// Lines reads a JSONL file line by line and stops at the first error. name is the file's.
func Lines(r io.Reader, name string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 64<<10), maxLine)
		n := 0
		for lines.Scan() {
			n++
			l := Line{fmt.Sprintf("%s:%d", name, n), lines.Bytes()}
			if n == 1 {
				l.Text = bytes.TrimPrefix(l.Text, []byte("\ufeff"))
			}
			l.Text = bytes.TrimSpace(l.Text)
			if err := checkUTF8(l.Text); err != nil { // encoding/json would change it silently
				yield(l, fmt.Errorf("%s: %w", l.Where, err))
				return
			}
			if !yield(l, nil) {
				return
			}
		}
		if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield(Line{}, fmt.Errorf("%s:%d: line longer than %d MiB", name, n+1, maxLine>>20))
		} else if err != nil { // the file's own error has its name
			yield(Line{}, err)
		}
	}
}

func checkUTF8(text []byte) error {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return fmt.Errorf("byte %d of the line, 0x%02x, is not valid UTF-8", at+1, text[at])
		}
		at += size
	}
	return nil
}

// ExplainJSON puts encoding/json's commonest complaints into the terms of the file.
func ExplainJSON(err error) error {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Errorf("a JSON %s: want one JSON object per line", wrong.Value)
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: a JSON %s does not fit there", wrong.Field, wrong.Value)
	case errors.As(err, &syntax):
		return fmt.Errorf("no JSON object (at byte %d of the line: %w)", syntax.Offset, err)
	}
	return err
}

// Episodes reads records one by one, our own or published ones. It stops at the first bad line with an error that
// names file and line; name is the file's. Empty lines are skipped.
func Episodes(r io.Reader, name string) iter.Seq2[Episode, error] {
	return func(yield func(Episode, error) bool) {
		for line, err := range Lines(r, name) {
			var ep Episode
			if err == nil && len(line.Text) == 0 {
				continue
			}
			if err == nil {
				if ep, err = unmarshalEpisode(line.Text); err != nil {
					err = fmt.Errorf("%s: %w", line.Where, err)
				}
			}
			if !yield(ep, err) || err != nil {
				return
			}
		}
	}
}

// AllEpisodes is Episodes at once.
func AllEpisodes(r io.Reader, name string) ([]Episode, error) {
	var all []Episode
	for ep, err := range Episodes(r, name) {
		if err != nil {
			return nil, err
		}
		all = append(all, ep)
	}
	return all, nil
}

// ReadEpisodes reads a whole file of records.
func ReadEpisodes(path string) ([]Episode, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read episodes: %w", err)
	}
	defer f.Close()
	return AllEpisodes(f, path)
}

// EncodeEpisodes writes records, a line each.
func EncodeEpisodes(w io.Writer, episodes []Episode, opts WriteOptions) error {
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
}

// WriteEpisodes writes a whole file of records atomically.
func WriteEpisodes(path string, episodes []Episode, opts WriteOptions) error {
	return AtomicWrite(path, func(w io.Writer) error { return EncodeEpisodes(w, episodes, opts) })
}
