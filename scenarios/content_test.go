package scenarios

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"seadtrain/dialogue"
)

func load(t *testing.T, name, language string) *dialogue.Scenario {
	t.Helper()
	scn, err := Load(name, language)
	if err != nil {
		t.Fatal(err)
	}
	return scn
}

// Every embedded file loads (Load validates), and what must hold of each in use holds.
func TestEveryScenario(t *testing.T) {
	if len(List()) < 2 {
		t.Fatalf("embedded: %v", List())
	}
	for _, ref := range List() {
		scn := load(t, ref.Name, ref.Language)
		if scn.Name != ref.Name || scn.Language != ref.Language {
			t.Errorf("%s says that it is %s/%s", ref, scn.Name, scn.Language)
		}
		for i := range scn.States() {
			st := scn.StateAt(i)
			fit := scn.ConsistentBehaviours(st)
			if len(fit) < 3 {
				t.Errorf("%s, state %s: %d behaviours to pick 1 to 3 from", ref, st, len(fit))
				continue
			}
			p := scn.NewProfile(st, []string{fit[0].ID, fit[1].ID, fit[len(fit)-1].ID})
			if err := scn.CheckProfile(p); err != nil {
				t.Errorf("%s: %v", ref, err)
			}
			shared, own := dialogue.UserPrompt(scn, p)
			for _, b := range []int{0, 1, len(fit) - 1} {
				if !strings.Contains(own, fit[b].Text) || strings.Contains(shared, fit[b].Text) {
					t.Errorf("%s, state %s: the profile must end the prompt, not %q", ref, st, own)
				}
			}
			if strings.ContainsAny(own, "{}") {
				t.Errorf("%s: unfilled placeholder in %q", ref, own)
			}
		}
		for _, r := range []dialogue.Role{dialogue.Agent, dialogue.User} {
			checkPromptShowsTags(t, ref, scn, r)
		}
	}
}

// A prompt that shows its tags shows all of them, in the protocol's order, so that a model that copies the pattern
// writes messages that parse. (Prompts of models trained on the tags, such as nano, may show none.)
func checkPromptShowsTags(t *testing.T, ref Ref, scn *dialogue.Scenario, r dialogue.Role) {
	prompt := dialogue.AgentPrompt(scn)
	if r == dialogue.User {
		prompt, _ = dialogue.UserPrompt(scn, dialogue.Profile{})
	}
	if !strings.Contains(prompt, "</") {
		return
	}
	at := 0
	for _, f := range scn.Protocol(r).Fields {
		for _, tag := range []string{f.Open(), f.Close()} {
			i := strings.Index(prompt[at:], tag)
			if i < 0 || strings.Count(prompt, tag) != 1 {
				t.Errorf("%s, %s's prompt: %s missing, repeated or out of order", ref, r, tag)
				return
			}
			at += i
		}
	}
}

// All languages of a scenario describe the same world: only words differ.
func TestLanguagesAgree(t *testing.T) {
	first := map[string]*dialogue.Scenario{}
	for _, ref := range List() {
		scn := load(t, ref.Name, ref.Language)
		other, seen := first[ref.Name]
		if !seen {
			first[ref.Name] = scn
			continue
		}
		if scn.MaxTurns != other.MaxTurns || len(scn.Stages) != len(other.Stages) || len(scn.Behaviours) != len(other.Behaviours) {
			t.Errorf("%s differs from %s in turns, stages or behaviours", ref, other.Language)
			continue
		}
		for i, d := range scn.Dimensions {
			if i >= len(other.Dimensions) || d.Name != other.Dimensions[i].Name || d.Levels != other.Dimensions[i].Levels {
				t.Errorf("%s: dimension %s differs from %s", ref, d.Name, other.Language)
			}
		}
		for i, b := range scn.Behaviours {
			o := other.Behaviours[i]
			if b.ID != o.ID || b.Category != o.Category || !maps.EqualFunc(b.Contradicts, o.Contradicts, slices.Equal) {
				t.Errorf("%s: behaviour %s differs from %s's %s", ref, b.ID, other.Language, o.ID)
			}
			if ref.Name == "outbound" && b.Text == o.Text {
				t.Errorf("%s: behaviour %s is not translated", ref, b.ID)
			}
		}
		for _, r := range []dialogue.Role{dialogue.Agent, dialogue.User} {
			for i, f := range scn.Protocol(r).Fields {
				if g := other.Protocol(r).Fields[i]; f.Tag != g.Tag || f.Kind != g.Kind || f.Means != g.Means {
					t.Errorf("%s: the %s's field %s differs from %s", ref, r, f.Tag, other.Language)
				}
			}
		}
	}
}

// What the paper's scenario must be.
func TestOutbound(t *testing.T) {
	for _, language := range []string{"en", "zh"} {
		scn := load(t, "outbound", language)
		if scn.MaxTurns != 15 || scn.States() != 120 || len(scn.Stages) != 4 {
			t.Errorf("%s: %d turns, %d states, %d stages", language, scn.MaxTurns, scn.States(), len(scn.Stages))
		}
		for i, want := range []struct {
			name   string
			levels int
		}{{"cooperation", 5}, {"emotion", 4}, {"trust", 6}} {
			if d := scn.Dimensions[i]; d.Name != want.name || d.Levels != want.levels || len(d.Labels) != want.levels {
				t.Errorf("%s: dimension %d is %+v", language, i, d)
			}
		}
		categories, texts := map[string]int{}, map[string]bool{}
		for _, b := range scn.Behaviours {
			categories[b.Category]++
			texts[b.Text] = true
			if !strings.HasPrefix(b.ID, b.Category+".") {
				t.Errorf("%s: %s is in category %s", language, b.ID, b.Category)
			}
		}
		if len(scn.Behaviours) < 90 || len(texts) != len(scn.Behaviours) || len(categories) != 14 {
			t.Errorf("%s: %d behaviours, %d distinct, %d categories", language, len(scn.Behaviours), len(texts), len(categories))
		}
		// a pool of 200 combinations of 1 to 3: with 12 there are 12 + 66 + 220 = 298
		for i := range scn.States() {
			if n := len(scn.ConsistentBehaviours(scn.StateAt(i))); n < 12 {
				t.Errorf("%s, state %s: only %d behaviours go with it", language, scn.StateAt(i), n)
			}
		}
		// by bytes of prompt: about 4 per token in English, 3 (one character) at most 1.5 in Chinese
		for name, prompt := range map[string]string{"agent": scn.Agent.Prompt, "user": scn.User.Prompt} {
			if len(prompt) > 2400 {
				t.Errorf("%s: the %s's prompt has %d bytes: it must stay near 500 tokens", language, name, len(prompt))
			}
		}
	}
}

// The published files' tags, in the order in which they are written.
func TestOutboundTags(t *testing.T) {
	want := map[dialogue.Role]string{
		dialogue.Agent: "response cooperation_score:0:4 emotion_score:0:3 trust_score:0:5 noise_score:0:5 stage:0:3 status:-1:1",
		dialogue.User:  "user_think user_reply user_cooperation:0:4 user_emotion:0:3 user_trust:0:5 user_noise:0:5 user_status:-1:1",
	}
	scn := load(t, "outbound", "en")
	for _, r := range []dialogue.Role{dialogue.Agent, dialogue.User} {
		var got []string
		for _, f := range scn.Protocol(r).Fields {
			words := f.Words()
			if words == nil {
				got = append(got, f.Tag)
			} else {
				got = append(got, f.Tag+":"+words[0]+":"+words[len(words)-1])
			}
		}
		if s := strings.Join(got, " "); s != want[r] {
			t.Errorf("%s: %s", r, s)
		}
	}
	if f := scn.User.Protocol.ByMeaning(dialogue.MeansPrivate); f == nil || f.Tag != "user_think" {
		t.Errorf("private field: %+v", f)
	}
}
