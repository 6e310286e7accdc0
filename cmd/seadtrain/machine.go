package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"seadtrain/internal/doctor"
	"seadtrain/internal/version"
	"seadtrain/torch"
)

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON on standard output"}
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "what this machine can do, what is missing, and the command that brings it",
		Flags: []cli.Flag{jsonFlag(), &cli.StringFlag{Name: "root", Usage: "the clone's `FOLDER`", DefaultText: "the one this program lies in, else the current"}},
		Action: func(c *cli.Context) error {
			if err := args(c); err != nil {
				return err
			}
			found := doctor.Report(doctor.Options{Root: c.String("root")})
			if c.Bool("json") {
				if err := printJSON(stdout, found); err != nil {
					return err
				}
			} else if _, err := fmt.Fprint(stdout, found); err != nil {
				return err
			}
			if !found.Healthy() {
				return errors.New("something is missing: see the report")
			}
			return nil
		},
	}
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "the program's commit and the versions of its libraries",
		Flags: []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := args(c); err != nil {
				return err
			}
			v := version.Get(torch.Version())
			if c.Bool("json") {
				return printJSON(stdout, v)
			}
			_, err := fmt.Fprint(stdout, v)
			return err
		},
	}
}
