package rollout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/internal/ranktest"
	"seadtrain/model"
	"seadtrain/model/chat"
	"seadtrain/model/tokenizer"
	"seadtrain/scenarios"
	"seadtrain/torch"
)

func ranksFile(dir string, rank int) string {
	return filepath.Join(dir, fmt.Sprintf("rank-%d.jsonl", rank))
}

// playRanks is one rank's part of a tensor-parallel rollout of the nano model; it leaves its dialogues in the job's folder.
func playRanks(r *ranktest.Rank) error {
	res, err := nanoOn(context.Background(), r.TP, nil)
	if err != nil {
		return err
	}
	return writeResult(ranksFile(r.Dir, r.World), res)
}

// stopRanks is cancelled on rank 1 alone, and must end on both, at the same step.
func stopRanks(r *ranktest.Rank) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	res, err := nanoOn(ctx, r.TP, func(p Progress) {
		if r.World == 1 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		return fmt.Errorf("rank %d: %w, want cancelled", r.World, err)
	}
	return writeResult(ranksFile(r.Dir, r.World), res)
}

func nanoOn(ctx context.Context, tp *torch.Comm, progress func(Progress)) (*Result, error) {
	dir := filepath.Join("..", "models", "nano")
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, err
	}
	defer tok.Close()
	tmpl, err := chat.Load(dir, tok)
	if err != nil {
		return nil, err
	}
	scn, err := scenarios.Load("nano", "en")
	if err != nil {
		return nil, err
	}
	m, err := model.Load(dir, model.Options{DType: torch.F32, TP: tp})
	if err != nil {
		return nil, err
	}
	defer func() { _ = torch.Do(m.Close) }()
	cfg := deskConfig(dialogue.Free)
	cfg.Agent.MaxTokens, cfg.User.MaxTokens, cfg.MaxTurns = 64, 80, 4
	roller, err := New(cfg, Parts{Scenario: scn, Tokenizer: tok, Template: tmpl, Agent: m, Frozen: m})
	if err != nil {
		return nil, err
	}
	defer roller.Close()
	return roller.Run(ctx, Request{Profiles: allStates(scn, 4), Group: 2, Seed: 5, Progress: progress})
}

func writeResult(file string, res *Result) error {
	eps := make([]dialogue.Episode, len(res.Episodes))
	for i, ep := range res.Episodes {
		eps[i] = *ep
	}
	return dialogue.WriteEpisodes(file, eps, dialogue.WriteOptions{Trace: true})
}

// Two tensor-parallel ranks draw the same dialogues, and those of one rank.
func TestRanksDrawTheSame(t *testing.T) {
	dir := ranktest.Run(t, "rollout", 2, 1)
	a, b := readFile(t, ranksFile(dir, 0)), readFile(t, ranksFile(dir, 1))
	if a != b {
		t.Fatal("the ranks' dialogues differ")
	}
	got, err := dialogue.ReadEpisodes(ranksFile(dir, 0))
	if err != nil {
		t.Fatal(err)
	}
	res, err := nanoOn(context.Background(), torch.Solo(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 8 {
		t.Fatalf("%d dialogues", len(got))
	}
	for i, want := range res.Episodes {
		// Sums over ranks round differently, by some 1e-6: enough to change one draw in a million.
		if !slices.Equal(got[i].Agent.Tokens, want.Agent.Tokens) || !slices.Equal(got[i].User.Tokens, want.User.Tokens) {
			t.Errorf("%s: two ranks draw other tokens than one", want.ID)
			continue
		}
		for k, lp := range want.Agent.LogProbs {
			if !(math.Abs(float64(lp-got[i].Agent.LogProbs[k])) <= 1e-5) {
				t.Errorf("%s: log-prob %d is %v on two ranks, %v on one", want.ID, k, got[i].Agent.LogProbs[k], lp)
			}
		}
	}
}

func TestRanksStopTogether(t *testing.T) {
	dir := ranktest.Run(t, "stop", 2, 1)
	a, b := readFile(t, ranksFile(dir, 0)), readFile(t, ranksFile(dir, 1))
	if a != b || a == "" {
		t.Errorf("the ranks stopped with %d and %d bytes of dialogues", len(a), len(b))
	}
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
