package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"seadtrain/internal/doctor"
	"seadtrain/internal/precision"
	"seadtrain/internal/version"
	"seadtrain/torch"
)

// Suites are what can be asked for.
var Suites = []string{"ops", "decode", "prefill", "rollout", "all"}

// Precisions of weights, as far as they have names here.
var Precisions = []string{"fp32", "bf16", "int8"}

// Options of a run.
type Options struct {
	Suite   string   // one of Suites
	Against []string // names of peers
	Model   string   // a Hugging Face directory
	// Precisions to measure; rollouts use the first one alone. Empty: what the processor does well, and rows for the others
	// that say why they are left out.
	Precisions []string
	Threads    int           // 0: one per core
	Budget     time.Duration // of the whole run, installing peers not counted
	Root       string        // the clone: scripts/ and build/ are in it
	Sizes      Sizes
	Say        func(format string, args ...any) // told of every step
}

// Sizes of the work.
type Sizes struct {
	Batches   []int // sequences that decode at once; single-sequence rows use the first, attention the last
	Context   int   // tokens in front of what is decoded, and of a prefill
	Tokens    int   // decoded by each
	Attention int   // context of the row about attention alone
	Shared    int   // tokens of the shared prompt
	Dialogues int
	Turns     int   // of each role
	Words     int   // tokens of a turn
	Prompt    int   // tokens of a role's prompt
	Scaling   []int // numbers of dialogues
	Nano      int   // dialogues of the nano model
	Stream    int64 // bytes of the buffer whose reading is the memory's bandwidth: well beyond every cache
}

// DefaultSizes are those of the table in the README.
func DefaultSizes() Sizes {
	return Sizes{Batches: []int{1, 16, 64}, Context: 512, Tokens: 32, Attention: 600, Shared: 1000,
		Dialogues: 64, Turns: 6, Words: 48, Prompt: 300, Scaling: []int{8, 64, 512}, Nano: 480, Stream: 1 << 30}
}

// largest batch.
func (s *Sizes) largest() int { return s.Batches[len(s.Batches)-1] }

// task measures some rows, which are named before it runs, for the case that it fails.
type task struct {
	names     []string
	precision string
	peer      string  // "": none
	share     float64 // of the budget: about the seconds it wants
	run       func(ctx context.Context, limit time.Duration) ([]Row, error)
}

// bench is a run.
type bench struct {
	Options
	report Report
	text   *Text
	engine *Engine
	at     string // precision of engine
	peers  peers
	began  time.Time
}

// Run measures. What cannot be measured is a row with an error; the error returned is that of a run that could not begin,
// or was stopped, and then the report holds the rows so far.
func Run(ctx context.Context, o Options) (*Report, error) {
	b := &bench{Options: o}
	defer func() {
		b.peers.close()
		if b.engine != nil {
			b.engine.Close()
		}
	}()
	torch.SetNumThreads(o.Threads)
	b.report.Machine = machine()
	chosen := b.choose()
	if err := b.use(chosen[0].name); err != nil {
		return nil, err
	}
	var tasks []task
	for i, c := range chosen {
		tasks = append(tasks, b.tasks(c, i == 0)...)
	}
	b.began = time.Now()
	for i, t := range tasks {
		if err := b.do(ctx, t, tasks[i:]); err != nil {
			return &b.report, err
		}
	}
	return &b.report, nil
}

// chosen is a precision, and why it is not measured.
type chosen struct {
	name string
	skip error
}

// choose gives the precisions that were asked for; else all, those first in which this processor is at its best.
func (b *bench) choose() (out []chosen) {
	for _, p := range b.Precisions {
		out = append(out, chosen{name: p})
	}
	if len(out) > 0 {
		return out
	}
	dtype, reason, _ := precision.Choose("auto") // a name that it knows
	if dtype == torch.BF16 {
		return []chosen{{name: "bf16"}, {name: "fp32"}, {name: "int8"}}
	}
	return []chosen{{name: "fp32"}, {"bf16", fmt.Errorf("left out, %s; --precision bf16 measures it all the same", reason)}, {name: "int8"}}
}

// tasks of the suite in one precision. What does not depend on it, and rollouts, are done in the first one alone. The order
// saves time: our prompts are held until the last peer has decoded, and a peer is seldom started twice.
func (b *bench) tasks(c chosen, first bool) (all []task) {
	against := func(f func(name string) []task) {
		for _, name := range Peers {
			if slices.Contains(b.Against, name) {
				all = append(all, f(name)...)
			}
		}
	}
	in := func(suite string) bool { return b.Suite == suite || b.Suite == "all" }
	own := c.skip == nil
	if in("ops") && first {
		all = append(all, b.opsTasks()...)
	}
	if in("decode") && own {
		all = append(all, b.ownDecode())
		if c.name != "fp32" {
			all = append(all, b.quality())
		}
	}
	if in("decode") {
		against(b.decodeAgainst)
	}
	if in("decode") && own {
		all = append(all, b.attentionTask())
	}
	if in("prefill") && own {
		all = append(all, b.ownPrefill())
	}
	if in("prefill") {
		against(b.prefillAgainst)
	}
	if in("rollout") && first {
		all = append(all, b.ownRollout()...)
		against(b.rolloutAgainst)
	}
	for i := range all {
		t := &all[i]
		t.precision = c.name
		if c.skip != nil {
			t.share, t.run = 0, func(context.Context, time.Duration) ([]Row, error) { return nil, c.skip }
		}
	}
	return all
}

// do runs one task within its share of what is left of the budget.
func (b *bench) do(ctx context.Context, t task, left []task) error {
	total := 0.0
	for _, u := range left {
		total += u.share
	}
	var rows []Row
	spent := fmt.Errorf("the budget of %s is used up", b.Budget)
	err := spent
	if time.Since(b.began) < b.Budget || t.share == 0 {
		err = b.prepare(ctx, t)
	}
	if err == nil {
		within, cancel := context.WithDeadline(ctx, b.began.Add(b.Budget))
		limit := time.Duration(float64(b.Budget-time.Since(b.began)) * t.share / max(total, 1))
		if rows, err = t.run(within, limit); errors.Is(err, context.DeadlineExceeded) {
			err = spent
		}
		cancel()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		rows = nil
		if b.engine != nil {
			b.engine.drop()
		}
		if t.peer != "" && t.share > 0 {
			b.peers.close() // who knows what state it is in
		}
		for _, name := range t.names {
			rows = append(rows, failed(name, t.precision, t.peer, err))
		}
	}
	for i := range rows {
		rows[i].Precision = t.precision
	}
	b.report.Rows = append(b.report.Rows, rows...)
	return nil
}

// prepare brings the model and the peer that a task wants. Installing a peer is not counted.
func (b *bench) prepare(ctx context.Context, t task) error {
	if t.share == 0 {
		return nil
	}
	b.Say("%s, %s", t.names[0], t.precision)
	if err := b.use(t.precision); err != nil || t.peer == "" {
		return err
	}
	return b.open(ctx, t.peer, t.precision)
}

// use loads the model in a precision, if it is not the one at hand.
func (b *bench) use(precision string) (err error) {
	if b.at == precision {
		return nil
	}
	if b.engine != nil {
		b.engine.Close()
		b.engine, b.at = nil, ""
	}
	if b.engine, err = OpenEngine(b.Model, precision); err != nil {
		b.engine = nil
		return err
	}
	b.at = precision
	b.text, err = ReadText(b.engine.Bundle)
	return err
}

func machine() string {
	return fmt.Sprintf("%s, %d cores, kernels %s, seadtrain %s", doctor.CPUName(), runtime.NumCPU(), torch.ISA(), version.Get("").Commit)
}
