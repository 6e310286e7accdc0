package nano

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"seadtrain/dialogue"
	"seadtrain/model/tokenizer"
	_ "seadtrain/torch" // the linker flags of the tokenizer library
)

func loadTokenizer(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(filepath.Join("..", "..", "models", "nano"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tok.Close)
	return tok
}

func TestTokenizer(t *testing.T) {
	tok := loadTokenizer(t)
	if n := tok.VocabSize(); n%64 != 0 {
		t.Errorf("%d tokens: no multiple of 64", n)
	}
	count := func(text string) int {
		ids, err := tok.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		if back := tok.Decode(ids, false); back != text {
			t.Errorf("%q comes back as %q", text, back)
		}
		return len(ids)
	}
	for _, r := range worlds(t) {
		for _, role := range []dialogue.Role{dialogue.Agent, dialogue.User} {
			for _, f := range r.Scenario.Protocol(role).Fields {
				for _, text := range append([]string{f.Open(), f.Close()}, f.Words()...) {
					if n := count(text); n != 1 {
						t.Errorf("%q is %d tokens, want 1", text, n)
					}
				}
			}
		}
	}
	for a := range acts {
		thought := Thought{Act: a, Outcome: Outcome(int(a) % int(outcomes)), User: User{C: int(a) % 5, E: int(a) % 4, T: int(a) % 6}}
		if n := count(thought.String()); n > 8 {
			t.Errorf("%q is %d tokens, want one a word (two for a rare one)", thought, n)
		}
	}
	// No text is beyond it: every byte has a token.
	count("Ünïcödé, ελληνικά, 鑫龘饕餮, 🙂 \t\r\n" + strings.Repeat("\x7f", 3))
	for b := range 0x800 {
		if b > 0 {
			count(string(rune(b)))
		}
	}
}

// TestPromptsMayBeCut: the shared part of the user's prompt and the profile are encoded apart in a rollout and in one
// piece in the corpus; both must give the same tokens.
func TestPromptsMayBeCut(t *testing.T) {
	tok := loadTokenizer(t)
	encode := func(text string) []int32 {
		ids, err := tok.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	for _, r := range worlds(t) {
		rng := newRand(6, 6)
		longest := len(encode(dialogue.AgentPrompt(r.Scenario)))
		for range 2000 {
			shared, own := dialogue.UserPrompt(r.Scenario, r.RandomProfile(rng))
			whole := encode(shared + own)
			if cut := append(encode(shared), encode(own)...); tok.Decode(cut, false) != shared+own || len(cut) != len(whole) {
				t.Fatalf("%q + %q: %d tokens apart, %d together", shared, own, len(cut), len(whole))
			}
			longest = max(longest, len(whole))
		}
		if longest > 25 {
			t.Errorf("%s: a prompt of %d tokens, want 25 at most", r.Scenario.Language, longest)
		}
	}
}

// TestTurnLengths: every token costs training time.
func TestTurnLengths(t *testing.T) {
	tok := loadTokenizer(t)
	for _, r := range worlds(t) {
		var out bytes.Buffer
		if err := Corpus(&out, []*Rules{r}, 11, 200); err != nil {
			t.Fatal(err)
		}
		var tokens, turns [2]int
		dec := json.NewDecoder(&out)
		for dec.More() {
			var s Sequence
			if err := dec.Decode(&s); err != nil {
				t.Fatal(err)
			}
			role := dialogue.User
			if s.Messages[1].Role == "assistant" {
				role = dialogue.Agent
			}
			for _, m := range s.Messages {
				if m.Role != "assistant" {
					continue
				}
				ids, err := tok.Encode(m.Content)
				if err != nil {
					t.Fatal(err)
				}
				turns[role]++
				tokens[role] += len(ids) + 1 // and the end of the turn
			}
		}
		for role, most := range map[dialogue.Role]float64{dialogue.Agent: 34, dialogue.User: 42} {
			mean := float64(tokens[role]) / float64(turns[role])
			t.Logf("%s: %v turn %.1f tokens", r.Scenario.Language, role, mean)
			if mean > most {
				t.Errorf("%s: %v turn of %.1f tokens on average, want %.0f at most", r.Scenario.Language, role, mean, most)
			}
		}
	}
}

// TestFewCharactersInBytes: what the world says is nearly always cut into words and whole characters.
func TestFewCharactersInBytes(t *testing.T) {
	tok := loadTokenizer(t)
	for _, r := range worlds(t) {
		rng := newRand(12, 12)
		broken, all := 0, 0
		for range 300 {
			talk, err := r.Play(r.RandomProfile(rng), CorpusPolicy(), rng)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range talk {
				ids, err := tok.Encode(x.Says + x.Reply)
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range ids {
					all++
					if !utf8.Valid(tok.Bytes(id)) {
						broken++
					}
				}
			}
		}
		if share := float64(broken) / float64(all); share > .25 {
			t.Errorf("%s: %.3f of the tokens are parts of a character", r.Scenario.Language, share)
		}
	}
}
