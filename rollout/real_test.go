package rollout

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/model/chat"
	"seadtrain/model/tokenizer"
	"seadtrain/scenarios"
)

// The shipped model in free mode: traces, privacy by reconstruction, log-probs, and the format that it was trained for.
func TestNanoModel(t *testing.T) {
	parts := nanoParts(t, filepath.Join("..", "models", "nano"))
	cfg := Config{
		Agent: Role{Sampling: Sampling{Temperature: 1, TopP: 1}, MaxTokens: 64, Context: 1024},
		User:  Role{Sampling: Sampling{Temperature: .7, TopP: .95, TopK: 40}, MaxTokens: 80, Context: 1024},
		Mode:  dialogue.Free, MaxDialogues: 16, MaxRows: 512, MaxExcluded: .1, Precision: "fp32", UserPrecision: "fp32",
	}
	for _, mode := range []dialogue.Mode{dialogue.Free, dialogue.Guided} {
		cfg.Mode = mode
		d := seatDesk(t, cfg, parts)
		res := d.run(t, Request{Profiles: allStates(parts.Scenario, 12), Group: 2, Seed: 1})
		worst := 0.0
		for _, ep := range res.Episodes {
			d.checkTrace(t, ep)
			worst = max(worst, checkLogProbs(t, parts.Agent, &ep.Agent, d.roller.Sets()))
			user := logProbError(t, parts.Frozen, &ep.User, d.roller.Sets())
			if !(user <= 1e-5/cfg.User.Temperature) { // never trained on; dividing by T enlarges the logits' rounding, too
				t.Errorf("%s: the user's log-probs differ by %.2g from the full forward", ep.ID, user)
			}
			worst = max(worst, user)
		}
		st := res.Stats
		messages, faults := st.Roles[0].Messages+st.Roles[1].Messages, st.Roles[0].FaultCount()+st.Roles[1].FaultCount()
		t.Logf("%s: ends %v, %d messages, %d malformed, log-probs differ by at most %.2g", mode, st.Ends, messages, faults, worst)
		if messages < 100 || float64(faults) > .03*float64(messages) || mode == dialogue.Guided && faults > 0 {
			t.Errorf("%s: %d of %d messages are malformed: %v %v", mode, faults, messages, st.Roles[0].Faults, st.Roles[1].Faults)
		}
	}
}

// Guided turns with the tokenizer of real models: drawn at random, always well-formed.
func TestGuidedWithQwenTokenizer(t *testing.T) {
	dir := filepath.Join("..", "third_party", "models", "qwen2.5-tokenizer")
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatalf("%v (make test-models fetches it)", err)
	}
	defer tok.Close()
	tmpl, err := chat.Load(dir, tok)
	if err != nil {
		t.Fatal(err)
	}
	const vocab, most = 151_936, 500
	sets := newSetTable(vocab)
	for _, language := range []string{"en", "zh"} {
		scn, err := scenarios.Load("outbound", language)
		if err != nil {
			t.Fatal(err)
		}
		for role := dialogue.Agent; role <= dialogue.User; role++ {
			g, err := newGuide(scn.Protocol(role), tok, tmpl.EndOfTurn(), sets, most)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(3) {
				turn := newGuidedTurn(g, most)
				ids, _ := walk(t, turn, sets.sets, vocab, rand.New(rand.NewPCG(seed, 3)))
				m := scn.ReadMessage(role, tok.Decode(ids[:len(ids)-1], false), false)
				if m.Fault != "" || len(ids) > most || ids[len(ids)-1] != tmpl.EndOfTurn() {
					t.Errorf("%s %s: %d tokens, %s: %q", language, role, len(ids), m.Fault, m.Content)
				}
			}
			t.Logf("%s %s: at least %d tokens a turn, %d sets in all", language, role, g.shortest(), sets.sets.Len())
		}
	}
}
