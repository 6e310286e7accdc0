package rollout

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"seadtrain/dialogue"
	"seadtrain/model"
	"seadtrain/model/chat"
	"seadtrain/model/tokenizer"
	"seadtrain/scenarios"
	"seadtrain/torch"
)

// The nano tier's load: 24 × 8 dialogues of the shipped model with a copy of itself, by the number that run at once.
// Processor time is reported beside wall time, since only it can be compared on a busy machine.
//
//	THREADS=2 go test ./rollout -run - -bench Nano -benchtime 2x
func BenchmarkNano(b *testing.B) {
	dir := filepath.Join("..", "models", "nano")
	if n, err := strconv.Atoi(os.Getenv("THREADS")); err == nil {
		torch.SetNumThreads(n)
		defer torch.SetNumThreads(1)
	}
	parts := nanoParts(b, dir)
	cfg := Config{
		Agent: Role{Sampling: Sampling{Temperature: 1, TopP: 1}, MaxTokens: 64, Context: 1024},
		User:  Role{Sampling: Sampling{Temperature: .7, TopP: 1}, MaxTokens: 80, Context: 1024},
		Mode:  dialogue.Free, MaxRows: 512, MaxExcluded: 1, Precision: "fp32", UserPrecision: "fp32",
	}
	for _, most := range []int{8, 16, 32, 64, 192} {
		b.Run(fmt.Sprint(most, "-at-once"), func(b *testing.B) {
			cfg.MaxDialogues = most
			d := seatDesk(b, cfg, parts)
			q := Request{Profiles: allStates(parts.Scenario, 24), Group: 8, Seed: 1}
			var sum Stats
			drawn, turns, dialogues := 0, 0, 0
			cpu := processorTime()
			for b.Loop() {
				q.Step++
				res, err := d.roller.Run(context.Background(), q)
				if err != nil {
					b.Fatal(err)
				}
				dialogues += len(res.Episodes)
				turns += res.Stats.Roles[0].Messages
				drawn += res.Stats.Roles[0].Sampled + res.Stats.Roles[1].Sampled
				sum.Rows += res.Stats.Rows
				sum.Forwards += res.Stats.Forwards
				sum.Elapsed += res.Stats.Elapsed
			}
			cpu = processorTime() - cpu
			b.ReportMetric(float64(dialogues)/sum.Elapsed.Seconds(), "dialogues/s")
			b.ReportMetric(float64(drawn)/sum.Elapsed.Seconds(), "drawn/s")
			b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(cpu.Microseconds())/float64(sum.Rows), "cpu-µs/row")
			b.ReportMetric(float64(sum.Rows)/float64(sum.Forwards), "rows/forward")
			b.ReportMetric(float64(turns)/float64(dialogues), "turns/dialogue")
			b.ReportMetric(float64(drawn)/float64(turns), "drawn/turn")
		})
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func nanoParts(t testing.TB, dir string) Parts {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	tok, err := tokenizer.Load(dir)
	fail(err)
	t.Cleanup(tok.Close)
	tmpl, err := chat.Load(dir, tok)
	fail(err)
	scn, err := scenarios.Load("nano", "en")
	fail(err)
	m, err := model.Load(dir, model.Options{DType: torch.F32})
	fail(err)
	frozen, err := m.Copy()
	fail(err)
	t.Cleanup(func() { _ = torch.Do(func() { m.Close(); frozen.Close() }) })
	return Parts{Scenario: scn, Tokenizer: tok, Template: tmpl, Agent: m, Frozen: frozen}
}

// allStates are n users spread over the grid, each with its first consistent behaviour.
func allStates(s *dialogue.Scenario, n int) (ps []dialogue.Profile) {
	for i := range n {
		st := s.StateAt(i * s.States() / n)
		ps = append(ps, s.NewProfile(st, []string{s.ConsistentBehaviours(st)[i%5].ID}))
	}
	return ps
}
