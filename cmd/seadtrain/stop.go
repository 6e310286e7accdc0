package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// signalError is why the context was cancelled.
type signalError struct{ os.Signal }

func (s signalError) Error() string { return s.String() }

// code is the exit code of a program that this signal stopped.
func (s signalError) code() int { return 128 + int(s.Signal.(syscall.Signal)) }

// stopOnSignal cancels the context at the first Ctrl-C or SIGTERM and says so; the second one ends the program at once.
func stopOnSignal(saying string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		sig := signalError{<-signals}
		fmt.Fprintf(stderr, "seadtrain: %s: %s; once more ends at once\n", sig, saying)
		cancel(sig)
		os.Exit(signalError{<-signals}.code())
	}()
	return ctx, func() { signal.Stop(signals) }
}

// stopped tells by which signal the work was stopped, and what else went wrong.
func stopped(ctx context.Context, err error) (by signalError, is bool, other error) {
	if !errors.As(context.Cause(ctx), &by) {
		return by, false, err
	}
	var rest []error
	for _, e := range faults(err) {
		if !errors.Is(e, context.Canceled) {
			rest = append(rest, e)
		}
	}
	return by, true, errors.Join(rest...)
}

// unlessStopped does work that holds nothing and that nobody wants after a stop: it returns as soon as ctx ends, and the
// work is left behind.
func unlessStopped[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := work()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// stoppableWriter ends a writer's work at the first write after a stop.
type stoppableWriter struct {
	ctx context.Context
	io.Writer
}

func (w stoppableWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}
