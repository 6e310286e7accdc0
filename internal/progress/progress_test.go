package progress

import (
	"os"
	"testing"
	"time"
)

func TestEstimate(t *testing.T) {
	for _, c := range []struct {
		elapsed     time.Duration
		done, total float64
		want        string
	}{
		{time.Minute, 0, 10, ""},
		{time.Minute, 10, 10, ""},
		{time.Minute, 5, 10, "~1m0s left"},
		{10 * time.Second, 4, 10, "~15s left"},      // 10 s · 6/4
		{time.Hour, 3, 9, "~2h0m0s left"},           // 1 h · 6/3
		{1234 * time.Millisecond, 1, 2, "~1s left"}, // whole seconds
	} {
		if got := Estimate(c.elapsed, c.done, c.total); got != c.want {
			t.Errorf("%v for %v of %v: %q, want %q", c.elapsed, c.done, c.total, got, c.want)
		}
	}
}

func TestBarAndCut(t *testing.T) {
	for _, c := range []struct {
		got, want string
	}{
		{Bar(0, 0, 4), "[····]"}, {Bar(1, 2, 4), "[##··]"}, {Bar(9, 9, 4), "[####]"}, {Bar(99, 9, 4), "[####]"},
		{cut("héllo", 5), "héllo"}, {cut("héllo", 4), "hél…"}, {cut("hello", 0), "hello"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// A file is no terminal: what is written goes there at once, the line once a minute.
func TestNoTerminal(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l := New(f)
	l.Show("too soon")
	l.Write([]byte("log\n"))
	l.last = l.last.Add(-plainEvery)
	l.Show("half %d", 1)
	l.Show("too soon again")
	l.Clear()
	if text, _ := os.ReadFile(f.Name()); string(text) != "log\nhalf 1\n" {
		t.Errorf("%q", text)
	}
}
