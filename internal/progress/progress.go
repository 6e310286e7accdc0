// Package progress shows what a long command is doing: one line that is written over on a terminal, else a plain line a
// minute.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Line is the one line. It is also the writer for everything else that goes to the terminal, so that the two never mix.
type Line struct {
	mu    sync.Mutex
	out   *os.File
	live  bool // out is a terminal
	shown string
	last  time.Time
}

// New shows progress on a file, usually standard error.
func New(out *os.File) *Line {
	return &Line{out: out, live: term.IsTerminal(int(out.Fd())), last: time.Now()}
}

// How often the line changes: on a terminal, and in a log file.
const liveEvery, plainEvery = 100 * time.Millisecond, time.Minute

// Show replaces the line. Calls that come too soon after the last one are not shown.
func (l *Line) Show(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	every := liveEvery
	if !l.live {
		every = plainEvery
	}
	if time.Since(l.last) < every {
		return
	}
	l.last = time.Now()
	text := fmt.Sprintf(format, args...)
	if !l.live {
		fmt.Fprintln(l.out, text)
		return
	}
	if width, _, err := term.GetSize(int(l.out.Fd())); err == nil {
		text = cut(text, width-1)
	}
	l.clear()
	io.WriteString(l.out, text)
	l.shown = text
}

// Clear removes the line.
func (l *Line) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

func (l *Line) clear() {
	if l.shown != "" {
		io.WriteString(l.out, "\r\033[K")
		l.shown = ""
	}
}

// Write puts other output above the line.
func (l *Line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	return l.out.Write(p)
}

func cut(text string, width int) string {
	if width < 1 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// Bar is a bar of that many characters for a share.
func Bar(done, total, width int) string {
	n := 0
	if total > 0 {
		n = min(width, width*done/total)
	}
	return "[" + strings.Repeat("#", n) + strings.Repeat("·", width-n) + "]"
}

// Estimate is how long the rest takes, from what is done, as "~3m20s left"; empty as long as nothing is known.
func Estimate(elapsed time.Duration, done, total float64) string {
	if done <= 0 || total <= done {
		return ""
	}
	left := time.Duration(float64(elapsed) * (total - done) / done)
	return "~" + left.Round(max(time.Second, left.Truncate(time.Minute)/60)).String() + " left"
}
