package rollout

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/torch"
)

// Sequences of one prompt compute it once, whatever stands before it in the cache and however a step cuts it, and draw what
// they draw alone. Blocks are back when all are closed; a sequence that fails or closes early keeps nobody waiting.
func TestPromptIsComputedOnce(t *testing.T) {
	m := tiny(t, "llama_untied")
	sharpen(t, m, 3)
	ids := func(n, from int) (out []int32) {
		for i := range n {
			out = append(out, int32((from+i*7)%96))
		}
		return out
	}
	const group, drawn = 4, 5
	long := 3*torch.BlockSize + 9
	for _, c := range []struct{ prefix, rows int }{{0, 512}, {0, 7}, {torch.BlockSize, 512}, {torch.BlockSize + 11, 512}, {torch.BlockSize + 11, 20}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			var traces [2][]dialogue.Trace
			var rows [2]int64
			for alone := range 2 {
				e, ws := newTestEngine(t, nil, c.rows, false, 60, m)
				w := ws[0]
				prompt := ids(long, 1)
				if err := e.Prefix(context.Background(), w, prompt[:c.prefix]); err != nil {
					t.Fatal(err)
				}
				e.Rows = 0
				var seqs []*Sequence
				for i := range group + 1 {
					o := SequenceOptions{Limit: 200, Sampling: Sampling{Temperature: 1, TopP: 1}, Rand: rand.New(rand.NewPCG(1, uint64(i)))}
					if alone == 0 {
						o.Prompt = 5
					}
					p := prompt
					if i == group { // says it has the others' prompt, and has not
						p = ids(long, 2)
					}
					s, err := w.Open(p, o)
					if err != nil {
						t.Fatal(err)
					}
					seqs = append(seqs, s)
				}
				for i, s := range seqs {
					if i == 1 { // one comes later
						continue
					}
					if err := s.Generate(sampleN(drawn)); err != nil {
						t.Fatal(err)
					}
				}
				run(t, e)
				seqs[0].Close() // the lender is gone, those who borrowed lend
				if err := seqs[1].Generate(sampleN(drawn)); err != nil {
					t.Fatal(err)
				}
				run(t, e)
				rows[alone] = e.Rows
				for _, s := range seqs {
					if s.Err() != nil {
						t.Error(s.Err())
					}
					traces[alone] = append(traces[alone], s.Trace)
					s.Close()
				}
				if len(w.lenders) > 0 {
					t.Errorf("%d lenders are left", len(w.lenders))
				}
			}
			if !reflect.DeepEqual(traces[0], traces[1]) {
				t.Error("sequences differ when they share a prompt")
			}
			from := c.prefix
			if got, want := rows[1]-rows[0], int64((group-1)*(long/torch.BlockSize*torch.BlockSize-from)); got != want {
				t.Errorf("%d rows are saved, want %d", got, want)
			}
		})
	}
	e, ws := newTestEngine(t, nil, 9, false, 60, m)
	var seqs []*Sequence
	for i := range 3 {
		s, err := ws[0].Open(ids(long, 1), SequenceOptions{Limit: 200, Prompt: 5, Sampling: Greedy, Rand: rand.New(rand.NewPCG(1, uint64(i)))})
		if err == nil {
			err = s.Generate(sampleN(drawn))
		}
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, s)
	}
	for range 2 { // in the middle of the prompt
		if _, err := e.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	seqs[0].Close()
	if over := run(t, e); len(over) != 2 {
		t.Errorf("%d sequences came to their end, want 2", len(over))
	}
	for _, s := range seqs {
		s.Close()
	}
}
