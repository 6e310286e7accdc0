package main

import (
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"seadtrain/internal/nano"
	"seadtrain/scenarios"
)

// corpusCommand is for `make nano-model`, and hidden: nobody else needs it.
func corpusCommand() *cli.Command {
	return &cli.Command{
		Name:   "nano-corpus",
		Usage:  "write the dialogues of the nano world that the nano model is made from",
		Hidden: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "`FILE` to write; \"-\": standard output"},
			&cli.Uint64Flag{Name: "seed", Value: 7, Usage: "`SEED`"},
			&cli.IntFlag{Name: "dialogues", Value: 24000, Usage: "`NUMBER` of dialogues; each gives one or two conversations"},
			&cli.StringFlag{Name: "languages", Value: "en,en,zh", Usage: "`LANGUAGES` in turn; one named twice gets two shares"},
		},
		Action: func(c *cli.Context) error {
			if err := args(c); err != nil {
				return err
			}
			if c.String("out") == "" || c.Int("dialogues") < 1 {
				return usagef("nano-corpus: want --out and at least one dialogue")
			}
			var worlds []*nano.Rules
			for _, l := range strings.Split(c.String("languages"), ",") {
				scn, err := scenarios.Load("nano", l)
				if err != nil {
					return err
				}
				r, err := nano.NewRules(scn)
				if err != nil {
					return err
				}
				worlds = append(worlds, r)
			}
			return writeFile(c.Context, c.String("out"), func(w io.Writer) error {
				return nano.Corpus(w, worlds, c.Uint64("seed"), c.Int("dialogues"))
			})
		},
	}
}
