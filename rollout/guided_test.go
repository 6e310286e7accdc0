package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/model/tokenizer"
	"seadtrain/scenarios"
	"seadtrain/torch"
)

// walk draws a turn at random from the allowed sets, each token of a set alike, without a model.
func walk(t *testing.T, c Constraint, sets *torch.Sets, vocab int32, r *rand.Rand) (ids []int32, sampled []bool) {
	t.Helper()
	for len(ids) < 5000 {
		n := c.Next()
		for _, id := range n.Forced {
			ids, sampled = append(ids, id), append(sampled, false)
		}
		if n.Done {
			return ids, sampled
		}
		if n.Set == 0 {
			t.Fatalf("after %d tokens everything is allowed: guided mode never does that", len(ids))
		}
		id := pick(sets, n.Set, vocab, r)
		if id < 0 {
			t.Fatalf("after %d tokens set %d leaves no choice", len(ids), n.Set)
		}
		ids, sampled = append(ids, id), append(sampled, true)
		c.Accept(id)
	}
	t.Fatal("the turn does not end")
	return nil, nil
}

// pick draws an allowed id: by trial, then, from small sets, by search. -1: the set has fewer than two.
func pick(sets *torch.Sets, set, vocab int32, r *rand.Rand) int32 {
	for range 100 {
		if id := r.Int32N(vocab); sets.Has(set, id) {
			return id
		}
	}
	var allowed []int32
	for id := range vocab {
		if sets.Has(set, id) {
			allowed = append(allowed, id)
		}
	}
	if len(allowed) < 2 {
		return -1
	}
	return allowed[r.IntN(len(allowed))]
}

// Whatever is drawn from the allowed sets is a well-formed message within its limits, and no sampled token straddles a tag.
func TestGuidedIsAlwaysWellFormed(t *testing.T) {
	numbers := desk()
	numbers.Agent.Protocol.Fields = append(numbers.Agent.Protocol.Fields,
		dialogue.Field{Tag: "many", Kind: dialogue.Int, Min: -1, Max: 120, Means: dialogue.MeansNoise})
	nano, err := scenarios.Load("nano", "en")
	if err != nil {
		t.Fatal(err)
	}
	outbound, err := scenarios.Load("outbound", "zh")
	if err != nil {
		t.Fatal(err)
	}
	plain, tmpl := byteTokenizer(t)
	words, wordsTmpl := byteTokenizer(t, deskWords...)
	for _, c := range []struct {
		name string
		p    dialogue.Protocol
		tok  *tokenizer.Tokenizer
		end  int32
		most int
	}{
		{"tags as tokens", desk().Agent.Protocol, words, wordsTmpl.EndOfTurn(), 40},
		{"tags as tokens, user", desk().User.Protocol, words, wordsTmpl.EndOfTurn(), 60},
		{"tags of many tokens", desk().User.Protocol, plain, tmpl.EndOfTurn(), 100},
		{"numbers that begin with others", numbers.Agent.Protocol, plain, tmpl.EndOfTurn(), 130},
		{"nano agent", nano.Agent.Protocol, plain, tmpl.EndOfTurn(), 400},
		{"nano user", nano.User.Protocol, plain, tmpl.EndOfTurn(), 400},
		{"outbound agent", outbound.Agent.Protocol, plain, tmpl.EndOfTurn(), 400},
		{"outbound user", outbound.User.Protocol, plain, tmpl.EndOfTurn(), 900},
	} {
		t.Run(c.name, func(t *testing.T) {
			sets := newSetTable(testVocab)
			shortest, err := newGuide(&c.p, c.tok, c.end, sets, c.most)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := newGuide(&c.p, c.tok, c.end, sets, shortest.shortest()-1); err == nil {
				t.Errorf("a turn one token short of the skeleton (%d) is taken", shortest.shortest())
			}
			scn := dialogue.Scenario{Agent: dialogue.Side{Protocol: c.p}}
			ends, closed, values := 0, 0, map[string]bool{}
			for seed := range uint64(600) {
				most := c.most
				if seed%3 == 0 { // the least that can do
					most = shortest.shortest()
				}
				turn := newGuidedTurn(shortest, most)
				ids, sampled := walk(t, turn, sets.sets, testVocab, rand.New(rand.NewPCG(seed, 1)))
				if len(ids) > most || ids[len(ids)-1] != c.end {
					t.Fatalf("seed %d: %d tokens, at most %d; the last is %d", seed, len(ids), most, ids[len(ids)-1])
				}
				text := c.tok.Decode(ids[:len(ids)-1], false)
				m := scn.ReadMessage(dialogue.Agent, text, false)
				if m.Fault != "" {
					t.Fatalf("seed %d: %s: %q", seed, m.Fault, text)
				}
				for i, id := range ids[:len(ids)-1] {
					if b := c.tok.Bytes(id); sampled[i] && slices.Contains(b, '<') && b[0] != '<' || c.tok.Special(id) {
						t.Fatalf("seed %d: token %d is %q", seed, i, b)
					}
				}
				if sampled[len(ids)-1] {
					ends++
				}
				if turn.closed() {
					closed++
				}
				for tag, v := range m.Values {
					values[tag+"="+v] = true
				}
			}
			if ends < 60 || closed < 10 || ends == 600 {
				t.Errorf("the end was sampled in %d of 600 turns, a text closed by force in %d", ends, closed)
			}
			for _, f := range c.p.Fields {
				for _, w := range f.Words() {
					if f.Max < 100 && !values[f.Tag+"="+w] {
						t.Errorf("<%s> was never %q", f.Tag, w)
					}
				}
			}
			t.Logf("at least %d tokens, %d sets; 600 turns: end sampled in %d, text closed by force in %d", shortest.shortest(), sets.sets.Len(), ends, closed)
		})
	}
}

// The steps of one turn, by hand: what is forced, what is sampled, from which set.
func TestGuidedSteps(t *testing.T) {
	tok, tmpl := byteTokenizer(t, deskWords...)
	id := func(s string) int32 {
		ids, err := tok.EncodeRaw(s)
		if err != nil || len(ids) != 1 {
			t.Fatalf("%q: %v %v", s, ids, err)
		}
		return ids[0]
	}
	sets := newSetTable(testVocab)
	p := dialogue.Protocol{Separator: "\n", Fields: []dialogue.Field{
		{Tag: "say", Kind: dialogue.Text, Means: dialogue.MeansReply, MaxTokens: 3},
		{Tag: "guess", Kind: dialogue.Int, Min: -1, Max: 10, Means: dialogue.MeansNoise},
		{Tag: "status", Kind: dialogue.Enum, Values: []string{"S-go"}, Means: dialogue.MeansStage},
	}}
	g, err := newGuide(&p, tok, tmpl.EndOfTurn(), sets, 60)
	if err != nil {
		t.Fatal(err)
	}
	type step struct {
		forced string  // decoded
		has    []int32 // in the set
		not    []int32
		draw   int32
	}
	alpha, closer, lt, end := id(" alpha"), id("</say>"), id("<"), tmpl.EndOfTurn()
	start, _ := tok.ID("<|im_start|>")
	for name, c := range map[string]struct {
		steps  []step
		closed bool
	}{
		"the model closes its text; -1 is two tokens, the second without a choice": {steps: []step{
			{"<say>", []int32{alpha, id("x")}, []int32{closer, lt, end, start, id(" "), id("\n"), id("<guess>")}, alpha},
			{"", []int32{alpha, closer, id(" ")}, []int32{lt, end, start, id("</guess>")}, closer},
			{"\n<guess>", []int32{id("-"), id("0"), id("1"), id("9")}, []int32{alpha, id("</guess>"), end}, id("-")},
			{"1</guess>\n<status>S-go</status>", []int32{end, id(" "), id("\n")}, []int32{alpha, id("x"), closer}, end},
		}},
		"a text is closed at its limit; 1 may become 10; white space before the end": {closed: true, steps: []step{
			{"<say>", nil, nil, alpha},
			{"", nil, nil, id(" ")},
			{"", nil, nil, alpha},
			{"</say>\n<guess>", nil, nil, id("1")},
			{"", []int32{id("0"), id("</guess>")}, []int32{id("1"), id("-")}, id("0")},
			{"</guess>\n<status>S-go</status>", nil, nil, id("\n")},
		}},
		"1 alone": {steps: []step{
			{"<say>", nil, nil, alpha},
			{"", nil, nil, closer},
			{"\n<guess>", nil, nil, id("1")},
			{"", nil, nil, id("</guess>")},
			{"\n<status>S-go</status>", nil, nil, end},
		}},
	} {
		turn := newGuidedTurn(g, 60)
		for i, s := range c.steps {
			n := turn.Next()
			if got := tok.Decode(n.Forced, false); got != s.forced || n.Done {
				t.Errorf("%s, step %d: forced %q (done %v), want %q", name, i, got, n.Done, s.forced)
			}
			for _, id := range append(s.has, s.draw) {
				if n.Set == 0 || !sets.sets.Has(n.Set, id) {
					t.Errorf("%s, step %d: %q is not allowed", name, i, tok.Bytes(id))
				}
			}
			for _, id := range s.not {
				if sets.sets.Has(n.Set, id) {
					t.Errorf("%s, step %d: %q is allowed", name, i, tok.Bytes(id))
				}
			}
			turn.Accept(s.draw)
		}
		n := turn.Next()
		want := ""
		if c.steps[len(c.steps)-1].draw != end {
			want = "<|im_end|>"
		}
		if got := tok.Decode(n.Forced, false); !n.Done || got != want || turn.closed() != c.closed {
			t.Errorf("%s: at the end forced %q, done %v, closed %v", name, got, n.Done, turn.closed())
		}
	}
	if padding := int32(testVocab - 1); sets.sets.Has(g.parts[0].text, padding) {
		t.Error("an id that the tokenizer does not have is allowed in a text")
	}
}

// Sets are kept once and come in the same order every time: traces name them.
func TestSetsAreStable(t *testing.T) {
	tok, tmpl := byteTokenizer(t, deskWords...)
	ids := func() string {
		sets := newSetTable(testVocab)
		all := ""
		for _, p := range []dialogue.Protocol{desk().Agent.Protocol, desk().User.Protocol, desk().Agent.Protocol} {
			g, err := newGuide(&p, tok, tmpl.EndOfTurn(), sets, 60)
			if err != nil {
				t.Fatal(err)
			}
			all += fmt.Sprint(g.ends, g.parts[0].text, g.parts[0].first, sets.sets.Len(), ";")
		}
		return all
	}
	first := ids()
	for range 5 {
		if again := ids(); again != first {
			t.Fatalf("sets %s, then %s", first, again)
		}
	}
	if parts := strings.Split(first, ";"); parts[0][:4] != parts[2][:4] {
		t.Errorf("the same protocol again has other sets: %s", first)
	}
}
