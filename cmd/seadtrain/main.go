// Command seadtrain trains service agents by the method SEAD: users sampled from a grid of states, dialogues with a
// frozen role-play model, GRPO, and error analysis that chooses the next users.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"seadtrain/internal/progress"
)

// Exit codes; the help texts and the README list them.
const (
	exitError       = 1   // what was asked for could not be done
	exitUsage       = 2   // a flag, an argument or a config is wrong
	exitInterrupted = 130 // SIGINT: stopped as asked, with a checkpoint
	exitTerminated  = 143 // SIGTERM: the same
)

// maxErrors bounds the lines that a file with many faults gives.
const maxErrors = 20

// stderr is where progress and log go.
var stderr = progress.New(os.Stderr)

func main() {
	passive()
	os.Exit(run(os.Args))
}

func run(args []string) int {
	ctx, stop := stopOnSignal()
	defer stop()
	app := newApp()
	err := app.RunContext(ctx, reorder(app, args))
	stderr.Clear()
	if err == nil {
		return 0
	}
	var sig signalError
	if errors.As(context.Cause(ctx), &sig) {
		fmt.Fprintf(stderr, "seadtrain: stopped by %s\n", sig)
		return 128 + int(sig.Signal.(syscall.Signal))
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for _, line := range lines[:min(len(lines), maxErrors)] {
		fmt.Fprintln(stderr, "seadtrain:", line)
	}
	if n := len(lines) - maxErrors; n > 0 {
		fmt.Fprintf(stderr, "seadtrain: … and %d more\n", n)
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitError
}

// usageError is an error of the command line or of a config, not of the work.
type usageError struct{ error }

func (u *usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// signalError is why the context was cancelled.
type signalError struct{ os.Signal }

func (s signalError) Error() string { return s.String() }

// stopOnSignal cancels the context at the first Ctrl-C or SIGTERM; the second one ends the program at once.
func stopOnSignal() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		sig := <-signals
		fmt.Fprintf(stderr, "seadtrain: %s: stopping with a checkpoint where there is one to write; once more ends at once\n", sig)
		cancel(signalError{sig})
		sig = <-signals
		os.Exit(128 + int(sig.(syscall.Signal)))
	}()
	return ctx, func() { signal.Stop(signals) }
}

// passive starts the program again, once, in the same process, with OpenMP threads that sleep while they wait. libgomp
// reads the variable when it is loaded, before main; its default, spinning, makes two-thread work several times slower as
// soon as other processes want the cores (SFT of the nano model on two busy cores: 350 tokens/s against 1,070).
func passive() {
	if os.Getenv("OMP_WAIT_POLICY") != "" {
		return
	}
	self, err := os.Executable()
	if err == nil {
		err = syscall.Exec(self, os.Args, append(os.Environ(), "OMP_WAIT_POLICY=passive"))
	}
	slog.Warn("cannot restart with OMP_WAIT_POLICY=passive; set it yourself beside other work", "error", err)
}

// setLog sends the log to standard error, above the progress line.
func setLog(c *cli.Context) error {
	level := slog.LevelInfo
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return usagef("--log-level %q: want debug, info, warn or error", c.String("log-level"))
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: shortTime})))
	return nil
}

// shortTime leaves out the date: a run's directory has it.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.String(slog.TimeKey, a.Value.Time().Format("15:04:05"))
	}
	return a
}
