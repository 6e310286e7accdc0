// Command gen writes the nano tier's corpus, from which its tokenizer and its model are made:
//
//	go run ./internal/nano/gen -out corpus.jsonl
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strings"

	"seadtrain/internal/nano"
	"seadtrain/scenarios"
)

func main() {
	out := flag.String("out", "", "file to write, one sequence a line (required)")
	seed := flag.Uint64("seed", 7, "seed of everything random")
	n := flag.Int("dialogues", 24000, "dialogues; each gives one or two sequences")
	languages := flag.String("languages", "en,en,zh", "languages in turn; one named twice gets two shares")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(*out, strings.Split(*languages, ","), *seed, *n); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(file string, languages []string, seed uint64, n int) error {
	var worlds []*nano.Rules
	for _, l := range languages {
		scenario, err := scenarios.Load("nano", l)
		if err != nil {
			return err
		}
		r, err := nano.NewRules(scenario)
		if err != nil {
			return err
		}
		worlds = append(worlds, r)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if err := nano.Corpus(w, worlds, seed, n); err != nil {
		f.Close()
		return err
	}
	if err := w.Flush(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
