package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"seadtrain/dialogue"
)

// readFile opens an argument for reading; "-" is standard input.
func readFile(path string, read func(r io.Reader) error) error {
	if path == "-" {
		return read(os.Stdin)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(read(f), f.Close())
}

// checkOutput tells before the work whether writeFile will find a place for its result.
func checkOutput(path string) error {
	if path == "-" {
		return nil
	}
	return dialogue.CheckWrite(path)
}

// writeFile writes an output, whole or not at all; "-" is standard output.
func writeFile(ctx context.Context, path string, write func(w io.Writer) error) error {
	if path == "-" {
		return write(stoppableWriter{ctx, stdout})
	}
	return dialogue.AtomicWrite(path, func(w io.Writer) error { return write(stoppableWriter{ctx, w}) })
}

// printed is a result in both forms.
type printed struct {
	value any
	text  string
}

// show prints a result as JSON or as text.
func show(c *cli.Context, p printed) error {
	if c.Bool("json") {
		return printJSON(stdout, p.value)
	}
	_, err := fmt.Fprint(stdout, p.text)
	return err
}
