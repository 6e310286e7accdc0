package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"seadtrain/dialogue"
	"seadtrain/model/chat"
	"seadtrain/torch"
)

func (d *table) run(t testing.TB, q Request) *Result {
	t.Helper()
	res, err := d.roller.Run(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// Free and guided dialogues: what was sampled is in the trace as it was sampled, and its log-probs are the full forward's.
func TestDialogues(t *testing.T) {
	byteTok, byteTmpl := byteTokenizer(t) // tags are many tokens here
	for name, d := range map[string]*table{
		"free, Markov":   setDesk(t, deskConfig(dialogue.Free)),
		"guided, Markov": setDesk(t, deskConfig(dialogue.Guided)),
		"guided, one random model in both roles": func() *table {
			m := randomModel(t, 3)
			cfg := deskConfig(dialogue.Guided)
			cfg.Agent.MaxTokens, cfg.User.MaxTokens, cfg.Agent.Context, cfg.User.Context = 110, 110, 1900, 1900
			return seatDesk(t, cfg, Parts{Scenario: desk(), Tokenizer: byteTok, Template: byteTmpl, Agent: m, Frozen: m})
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			res := d.run(t, Request{Profiles: deskProfiles(d.parts.Scenario, 5), Group: 4, Seed: 3, Step: 7})
			worst, turns := 0.0, 0
			for i, ep := range res.Episodes {
				if want := fmt.Sprintf("7-%d-%d", i/4, i%4); ep.ID != want || ep.Group != i/4 || ep.Member != i%4 {
					t.Errorf("episode %d is %s of group %d, want %s", i, ep.ID, ep.Group, want)
				}
				turns += ep.Turns
				d.checkTrace(t, ep)
				worst = max(worst, checkLogProbs(t, d.parts.Agent, &ep.Agent, d.roller.Sets()))
				worst = max(worst, checkLogProbs(t, d.parts.Frozen, &ep.User, d.roller.Sets()))
				if _, err := dialogue.MarshalEpisode(ep, dialogue.WriteOptions{Trace: true}); err != nil {
					t.Error(err)
				}
			}
			st := res.Stats
			t.Logf("%d dialogues, %d turns, ends %v, faults %v, kept mass %.3f and %.3f, %d rows; log-probs differ by at most %.2g", len(res.Episodes), turns,
				st.Ends, st.Roles[0].Faults, st.Roles[0].KeptMass(), st.Roles[1].KeptMass(), st.Rows, worst)
			if turns < 25 || len(res.Episodes) != 20 {
				t.Errorf("%d dialogues with %d turns in all: nothing was tested", len(res.Episodes), turns)
			}
			if d.cfg.Mode == dialogue.Guided && st.Roles[0].FaultCount()+st.Roles[1].FaultCount() > 0 {
				t.Errorf("guided messages are malformed: %v %v", st.Roles[0].Faults, st.Roles[1].Faults)
			}
		})
	}
}

// checkTrace rebuilds both views of a dialogue from its messages: prompts and what was heard come from text, own turns
// from the trace. It must give the trace, so nothing was encoded again, and nothing else was said.
func (d *table) checkTrace(t *testing.T, ep *dialogue.Episode) {
	t.Helper()
	scn, tmpl := d.parts.Scenario, d.parts.Template
	must := func(ids []int32, err error) []int32 {
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	for role, tr := range []*dialogue.Trace{&ep.Agent, &ep.User} {
		role := dialogue.Role(role)
		system := dialogue.AgentPrompt(scn)
		if role == dialogue.User {
			shared, own := dialogue.UserPrompt(scn, ep.Profile)
			system = shared + own
		}
		want := must(tmpl.Opening(system))
		spoke := false
		for i, m := range ep.Messages {
			if m.Role != role {
				if i == len(ep.Messages)-1 {
					break // nobody hears the last message
				}
				if spoke {
					want = append(want, tmpl.Suffix()[1:]...)
				}
				hears := scn.UserHears(m)
				if m.Role == dialogue.User {
					hears = scn.AgentHears(m)
				}
				want = append(want, must(tmpl.Turn(chat.User, hears))...)
				continue
			}
			want = append(want, must(tmpl.Prefix(chat.Assistant))...)
			n := slices.Index(tr.Tokens[min(len(want), len(tr.Tokens)):], tmpl.EndOfTurn())
			if n < 0 {
				t.Fatalf("%s, %s, message %d: no end of turn after token %d of %d", ep.ID, role, i, len(want), len(tr.Tokens))
			}
			own := tr.Tokens[len(want) : len(want)+n]
			if got := dialogue.Clean(d.tok.Decode(own, false)); got != m.Content {
				t.Fatalf("%s, %s, message %d is %q, its tokens are %q", ep.ID, role, i, m.Content, got)
			}
			if d.cfg.Mode == dialogue.Free && slices.Contains(tr.Loss[len(want):len(want)+n], false) {
				t.Fatalf("%s, %s, message %d: a sampled token is not in the loss", ep.ID, role, i)
			}
			want = append(append(want, own...), tmpl.EndOfTurn())
			if forced := d.cfg.Mode == dialogue.Free && n == d.roller.sides[role].role.MaxTokens; tr.Loss[len(want)-1] == forced && (forced || d.cfg.Mode == dialogue.Free) {
				t.Errorf("%s, %s, message %d: the end of turn is not in the loss", ep.ID, role, i)
			}
			spoke = true
		}
		if !slices.Equal(tr.Tokens, want) {
			t.Fatalf("%s, %s: the view is %q, want %q", ep.ID, role, d.tok.Decode(tr.Tokens, false), d.tok.Decode(want, false))
		}
		if n := len(tr.Tokens); len(tr.Loss) != n || len(tr.Sets) != n || len(tr.LogProbs) != n {
			t.Fatalf("%s, %s: trace of %d tokens, %d, %d and %d", ep.ID, role, n, len(tr.Loss), len(tr.Sets), len(tr.LogProbs))
		}
	}
}

// The other side's private thought, states, estimates and status never enter a view, as tokens or as text.
func TestNothingPrivateCrosses(t *testing.T) {
	for _, mode := range []dialogue.Mode{dialogue.Free, dialogue.Guided} {
		d := setDesk(t, deskConfig(mode))
		res := d.run(t, Request{Profiles: deskProfiles(d.parts.Scenario, 6), Group: 8, Seed: 5})
		forbidden := func(words ...string) (ids []int32) {
			for _, w := range words {
				id, ok := d.tok.ID(w)
				if !ok {
					t.Fatalf("%q is no token", w)
				}
				ids = append(ids, id)
			}
			return ids
		}
		fromAgent := forbidden("<say>", "</say>", "<guess>", "G0", "G1", "G2", "<status>", "S-quit", "S-go", "S-won")
		fromUser := forbidden("<think>", "</think>", " secret", " hidden", "<reply>", "</reply>", "<mood>", "M0", "M1", "M2", "<end>", "E-no", "E-on", "E-yes")
		heard := 0
		for _, ep := range res.Episodes {
			if ep.End == dialogue.EndAgentMalformed || ep.End == dialogue.EndUserMalformed {
				continue // a stray token of the background may be anything
			}
			for role, tr := range []*dialogue.Trace{&ep.Agent, &ep.User} {
				bad := fromUser
				if role == int(dialogue.User) {
					bad = fromAgent
				}
				for i, id := range tr.Tokens {
					if slices.Contains(bad, id) {
						t.Fatalf("%s: token %d of the %s's view is %q", ep.ID, i, dialogue.Role(role), d.tok.Bytes(id))
					}
				}
				if text := d.tok.Decode(tr.Tokens, false); strings.Contains(text, ep.Profile.Behaviours[0]) ||
					role == 0 && strings.Contains(text, d.parts.Scenario.Behaviour(ep.Profile.Behaviours[0]).Text) {
					t.Fatalf("%s: the %s knows the profile", ep.ID, dialogue.Role(role))
				}
				heard += strings.Count(d.tok.Decode(tr.Tokens, false), "<|im_start|>user")
			}
		}
		if heard < 100 {
			t.Errorf("only %d messages were heard: nothing was tested", heard)
		}
	}
}

// After every engine step every view is the one before it, and more.
func TestHistoryOnlyGrows(t *testing.T) {
	d := setDesk(t, deskConfig(dialogue.Free))
	u, err := d.roller.begin(Request{Profiles: deskProfiles(d.parts.Scenario, 4), Group: 4, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := u.prefixes(ctx); err != nil {
		t.Fatal(err)
	}
	before := map[*Sequence]dialogue.Trace{}
	steps := 0
	for more := true; more; steps++ {
		if more, err = u.step(ctx); err != nil {
			t.Fatal(err)
		}
		for s := range u.bySeq {
			was, is := before[s], s.Trace
			if n := len(was.Tokens); n > len(is.Tokens) || !slices.Equal(was.Tokens, is.Tokens[:n]) || !slices.Equal(was.Loss, is.Loss[:n]) ||
				!slices.Equal(was.Sets, is.Sets[:n]) || !slices.Equal(was.LogProbs, is.LogProbs[:n]) {
				t.Fatalf("step %d: a view of %d tokens was changed", steps, n)
			}
			before[s] = dialogue.Trace{
				Tokens: slices.Clone(is.Tokens), Loss: slices.Clone(is.Loss), Sets: slices.Clone(is.Sets), LogProbs: slices.Clone(is.LogProbs),
			}
		}
	}
	u.end(nil)
	if steps < 50 {
		t.Errorf("only %d steps", steps)
	}
}

func sameEpisodes(t *testing.T, what string, a, b []*dialogue.Episode) {
	t.Helper()
	if len(a) != len(b) {
		t.Fatalf("%s: %d and %d episodes", what, len(a), len(b))
	}
	for i := range a {
		x, err := dialogue.MarshalEpisode(a[i], dialogue.WriteOptions{Trace: true})
		y, err2 := dialogue.MarshalEpisode(b[i], dialogue.WriteOptions{Trace: true})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if string(x) != string(y) {
			t.Fatalf("%s: episode %s differs from %s", what, a[i].ID, b[i].ID)
		}
	}
}

// Equal requests give equal dialogues, also on another roller; another seed, step or tag gives others.
func TestSameSeedSameDialogues(t *testing.T) {
	d := setDesk(t, deskConfig(dialogue.Free))
	q := Request{Profiles: deskProfiles(d.parts.Scenario, 4), Group: 3, Seed: 9, Step: 2}
	first := d.run(t, q)
	sameEpisodes(t, "again", first.Episodes, d.run(t, q).Episodes)
	sameEpisodes(t, "another roller", first.Episodes, seatDesk(t, d.cfg, d.parts).run(t, q).Episodes)
	seeds := map[uint64]bool{}
	for _, ep := range first.Episodes {
		seeds[ep.Seed] = true
	}
	if len(seeds) != 12 || slices.Equal(first.Episodes[0].Agent.Tokens, first.Episodes[1].Agent.Tokens) {
		t.Errorf("12 dialogues have %d seeds", len(seeds))
	}
	for what, change := range map[string]func(q *Request){
		"seed": func(q *Request) { q.Seed++ }, "step": func(q *Request) { q.Step++ }, "tag": func(q *Request) { q.Tag = "eval-" },
	} {
		other := q
		change(&other)
		if slices.Equal(d.run(t, other).Episodes[0].Agent.Tokens, first.Episodes[0].Agent.Tokens) {
			t.Errorf("another %s gives the same dialogue", what)
		}
	}
}

// In batch-invariant mode a dialogue does not depend on how many run at once, on the rows of a step, or on its neighbours:
// bit for bit.
func TestDialoguesAreBatchInvariant(t *testing.T) {
	cfg := deskConfig(dialogue.Free)
	cfg.BatchInvariant = true
	d := setDesk(t, cfg)
	q := Request{Profiles: deskProfiles(d.parts.Scenario, 5), Group: 2, Seed: 4}
	want := d.run(t, q)
	for _, c := range []struct{ dialogues, rows int }{{1, 256}, {3, 256}, {10, 5}, {7, 64}} {
		cfg.MaxDialogues, cfg.MaxRows = c.dialogues, c.rows
		got := seatDesk(t, cfg, d.parts).run(t, q)
		sameEpisodes(t, fmt.Sprintf("%d dialogues, %d rows", c.dialogues, c.rows), got.Episodes, want.Episodes)
	}
	// A rank's share of the same step.
	part := q
	part.Profiles, part.Offset = q.Profiles[3:], 3
	sameEpisodes(t, "the last two profiles alone", d.run(t, part).Episodes, want.Episodes[6:])
}

// New weights under a new version (or none) are used from the first token of the prompt on; the frozen model's prompt stays.
func TestNewWeightsNewPrompts(t *testing.T) {
	tok, tmpl := byteTokenizer(t)
	cfg := deskConfig(dialogue.Guided)
	cfg.Agent.MaxTokens, cfg.User.MaxTokens, cfg.Agent.Context, cfg.User.Context = 110, 110, 1900, 1900
	d := seatDesk(t, cfg, Parts{Scenario: desk(), Tokenizer: tok, Template: tmpl, Agent: randomModel(t, 3), Frozen: randomModel(t, 4)})
	q := Request{Profiles: deskProfiles(d.parts.Scenario, 2), Group: 2, Seed: 3, Version: 1}
	rows := d.run(t, q).Stats.Rows
	again := d.run(t, q).Stats.Rows
	if want := rows - int64(len(d.roller.sides[0].shared)+len(d.roller.sides[1].shared)); again != want {
		t.Errorf("the same version again runs %d rows, want %d without both prompts", again, want)
	}
	for _, version := range []uint64{2, 0} {
		if err := torch.Do(func() {
			w := d.parts.Agent.EmbedLeaf().Tensor
			w.AddInPlace(torch.Randn(9, torch.F32, torch.CPU, w.Shape()...), .05)
		}); err != nil {
			t.Fatal(err)
		}
		q.Version = version
		for _, ep := range d.run(t, q).Episodes {
			checkLogProbs(t, d.parts.Agent, &ep.Agent, d.roller.Sets())
		}
	}
}

func TestGreedyOverride(t *testing.T) {
	d := setDesk(t, deskConfig(dialogue.Free))
	q := Request{Profiles: deskProfiles(d.parts.Scenario, 1), Group: 6, Seed: 4, AgentSampling: &Greedy, UserSampling: &Greedy}
	res := d.run(t, q)
	for _, ep := range res.Episodes {
		if !slices.Equal(ep.Agent.Tokens, res.Episodes[0].Agent.Tokens) || ep.Agent.Temperature != 0 {
			t.Fatalf("greedy dialogues of one profile differ")
		}
	}
}

// A cancelled rollout returns at once with what is finished; what was running is marked, and all memory is back.
func TestCancellation(t *testing.T) {
	cfg := deskConfig(dialogue.Free)
	cfg.MaxDialogues = 3
	d := setDesk(t, cfg)
	q := Request{Profiles: deskProfiles(d.parts.Scenario, 6), Group: 5, Seed: 2}
	want := d.run(t, q)
	u, err := d.roller.begin(q)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := u.prefixes(ctx); err != nil {
		t.Fatal(err)
	}
	for u.progress.Done < 8 {
		if _, err := u.step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	_, err = u.step(ctx)
	u.end(err)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	finished, cancelled := 0, 0
	for _, ep := range u.result.Episodes {
		if ep.End == dialogue.EndCancelled {
			cancelled++
			continue
		}
		finished++
		i := ep.Group*5 + ep.Member
		sameEpisodes(t, "finished before", []*dialogue.Episode{ep}, want.Episodes[i:i+1])
	}
	if finished < 8 || finished > 10 || cancelled < 1 || cancelled > 3 {
		t.Errorf("%d finished, %d cancelled", finished, cancelled)
	}
	d.roller.checkIdle(t)
	sameEpisodes(t, "after a cancelled run", d.run(t, q).Episodes, want.Episodes)

	done, stop := context.WithCancel(context.Background())
	stop()
	if res, err := d.roller.Run(done, q); !errors.Is(err, context.Canceled) || len(res.Episodes) != 0 {
		t.Errorf("a run that was cancelled before it began: %v, %d episodes", err, len(res.Episodes))
	}
}

// A view without room for another turn ends its dialogue: the agent's as failure, the user's as excluded.
func TestContextLimit(t *testing.T) {
	for role, end := range []dialogue.End{dialogue.EndContextLimit, dialogue.EndUserContext} {
		cfg := deskConfig(dialogue.Free)
		if role == 0 {
			cfg.Agent.Context = 220
		} else {
			cfg.User.Context = 260
		}
		d := setDesk(t, cfg)
		res := d.run(t, Request{Profiles: deskProfiles(d.parts.Scenario, 4), Group: 8, Seed: 6})
		if n := res.Stats.Ends[end]; n < 3 {
			t.Errorf("%s: only %d dialogues ended so: %v", end, n, res.Stats.Ends)
		}
		for _, ep := range res.Episodes {
			for r, tr := range []*dialogue.Trace{&ep.Agent, &ep.User} {
				for i, loss := range tr.Loss { // a turn begins only where the longest one has room
					if side := d.roller.sides[r].role; loss && !tr.Loss[i-1] && i+side.MaxTokens+1 > side.Context {
						t.Errorf("%s: a turn of the %s begins at token %d of %d", ep.ID, dialogue.Role(r), i, side.Context)
					}
				}
			}
			if ep.End == end {
				d.checkTrace(t, ep)
				if ep.Reward != 0 || ep.End.Excluded() != (role == 1) {
					t.Errorf("%s: reward %v", ep.ID, ep.Reward)
				}
			}
		}
	}
}

// A model that leaves its protocol: the agent's dialogues count as failures, the user's are excluded, and too many of
// these are an error that comes with the result.
func TestMalformed(t *testing.T) {
	tok, tmpl := byteTokenizer(t, deskWords...)
	good, sloppy := markovModel(t, tok, agentChain, 13, 1), markovModel(t, tok, agentChain, 8, 1)
	user, sloppyUser := markovModel(t, tok, userChain, 13, 2), markovModel(t, tok, userChain, 8, 2)
	cfg := deskConfig(dialogue.Free)
	cfg.MaxExcluded = .1
	scn := desk()
	q := Request{Profiles: deskProfiles(scn, 6), Group: 6, Seed: 6}

	d := seatDesk(t, cfg, Parts{Scenario: scn, Tokenizer: tok, Template: tmpl, Agent: sloppy, Frozen: user})
	st := d.run(t, q).Stats
	if st.Ends[dialogue.EndAgentMalformed] < 10 || st.Roles[0].FaultCount() != st.Ends[dialogue.EndAgentMalformed] || len(st.Excluded) > 1 {
		t.Errorf("sloppy agent: ends %v, faults %v, excluded %v", st.Ends, st.Roles[0].Faults, st.Excluded)
	}
	t.Logf("sloppy agent: %v %v", st.Ends, st.Roles[0].Faults)

	d = seatDesk(t, cfg, Parts{Scenario: scn, Tokenizer: tok, Template: tmpl, Agent: good, Frozen: sloppyUser})
	q.UserSampling = &Sampling{Temperature: 1, TopP: 1}
	res, err := d.roller.Run(context.Background(), q)
	var ex *ExcludedError
	if !errors.Is(err, ErrTooManyExcluded) || !errors.As(err, &ex) {
		t.Fatalf("sloppy user: %v", err)
	}
	byProfile := 0
	for _, ends := range res.Stats.Excluded {
		for _, n := range ends {
			byProfile += n
		}
	}
	if ex.Total != 36 || ex.Excluded < 10 || ex.Excluded != res.Stats.ExcludedCount() || byProfile != ex.Excluded || len(res.Episodes) != 36 ||
		ex.Ends[dialogue.EndUserMalformed] != res.Stats.Ends[dialogue.EndUserMalformed] {
		t.Errorf("sloppy user: %v, by profile %v", ex, res.Stats.Excluded)
	}
	t.Log(err)
}

// A turn that is cut at its limit is malformed as truncated, and its history is still well-formed.
func TestCutTurn(t *testing.T) {
	cfg := deskConfig(dialogue.Free)
	cfg.Agent.MaxTokens = 9
	d := setDesk(t, cfg)
	res := d.run(t, Request{Profiles: deskProfiles(d.parts.Scenario, 4), Group: 8, Seed: 6})
	cut := res.Stats.Roles[0].Faults[dialogue.FaultTruncated]
	if cut < 5 {
		t.Fatalf("only %d messages were cut: %v", cut, res.Stats.Ends)
	}
	for _, ep := range res.Episodes {
		d.checkTrace(t, ep)
		n := len(ep.Agent.Tokens) - 1
		if ep.End == dialogue.EndAgentMalformed && (ep.Agent.Tokens[n] != d.parts.Template.EndOfTurn() || ep.Agent.Loss[n]) {
			t.Errorf("%s: a cut turn ends with token %d, in the loss: %v", ep.ID, ep.Agent.Tokens[n], ep.Agent.Loss[n])
		}
	}
}

func TestProgress(t *testing.T) {
	d := setDesk(t, deskConfig(dialogue.Free))
	var last Progress
	calls := 0
	res := d.run(t, Request{Profiles: deskProfiles(d.parts.Scenario, 4), Group: 4, Seed: 6, Progress: func(p Progress) {
		if p.Done < last.Done || p.Total != 16 || p.Done+p.Running > p.Total {
			t.Errorf("progress %+v after %+v", p, last)
		}
		if p.Cache < 0 || p.Cache > 1 || p.Running > 0 && p.Cache == 0 {
			t.Errorf("%d run with %g of the cache in use", p.Running, p.Cache)
		}
		last = p
		calls++
	}})
	st := res.Stats
	if last.Done != 16 || last.Running != 0 || last.Success != st.Ends[dialogue.EndAgreed] || last.Counted != 16-st.ExcludedCount() ||
		last.Tokens[0] != st.Roles[0].Sampled || last.Tokens[1] != st.Roles[1].Sampled || calls < 1 {
		t.Errorf("last of %d calls: %+v; stats %+v", calls, last, st)
	}
	p := Progress{Running: 3, Tokens: [2]int{100, 250}, Cache: .625, Elapsed: 2 * time.Second}
	if got, want := p.Detail(), "3 run  agent 50 + user 125 tokens/s  cache 62 %"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRequestErrors(t *testing.T) {
	d := setDesk(t, deskConfig(dialogue.Free))
	p := d.parts
	p.Frozen = nil
	alone := seatDesk(t, d.cfg, p)
	bad := Sampling{Temperature: -1}
	for what, c := range map[string]struct {
		d *table
		q Request
	}{
		"group 0":     {d, Request{Profiles: deskProfiles(p.Scenario, 1)}},
		"temperature": {d, Request{Profiles: deskProfiles(p.Scenario, 1), Group: 1, AgentSampling: &bad}},
		"profile 0":   {d, Request{Profiles: []dialogue.Profile{{ID: "x", State: dialogue.State{0}}}, Group: 1}},
		"user source": {alone, Request{Profiles: deskProfiles(p.Scenario, 1), Group: 1}},
	} {
		if _, err := c.d.roller.Run(context.Background(), c.q); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
