package eval

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"seadtrain/dialogue"
)

func TestAnalyse(t *testing.T) {
	s := outbound(t)
	var eps []dialogue.Episode
	add := func(state dialogue.State, successes, n int) {
		for i := range n {
			ep := outcome(s, s.StateIndex(state), i < successes)
			eps = append(eps, ep)
		}
	}
	add(dialogue.State{4, 3, 5}, 4, 5) // .8
	add(dialogue.State{4, 3, 4}, 5, 5) // 1
	add(dialogue.State{2, 2, 2}, 2, 5) // .4: ideal
	add(dialogue.State{2, 2, 3}, 3, 5) // .6: ideal
	add(dialogue.State{0, 0, 1}, 1, 5) // .2
	add(dialogue.State{0, 0, 0}, 0, 5) // 0
	add(dialogue.State{1, 1, 1}, 3, 3) // too few
	unknown := outcome(s, -1, true)
	placed := unknown
	placed.Messages = []dialogue.Message{say(dialogue.Agent, [3]int{0, 0, 0}, 0, 0), say(dialogue.User, [3]int{1, 1, 2}, 0, 0)}
	eps = append(eps, unknown, placed, dialogue.Episode{End: dialogue.EndUserContext, Profile: eps[0].Profile})
	a := Analyse(s, eps, DefaultBands())
	list := func(cs []StateCompletion) string {
		var out []string
		for _, c := range cs {
			out = append(out, fmt.Sprintf("%v %d/%d", c.State, c.Successes, c.Dialogues))
		}
		return strings.Join(out, ", ")
	}
	for _, c := range []struct{ what, got, want string }{
		{"too easy", list(a.TooEasy), "4-3-4 5/5, 4-3-5 4/5"},
		{"ideal", list(a.Ideal), "2-2-2 2/5, 2-2-3 3/5"},
		{"too hard", list(a.TooHard), "0-0-0 0/5, 0-0-1 1/5"},
		{"unjudged", list(a.Unjudged), "1-1-1 3/3, 1-1-2 1/1"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
	if a.Reported != 1 || a.Unplaced != 1 {
		t.Errorf("reported %d, unplaced %d, want 1 and 1", a.Reported, a.Unplaced)
	}
	if l := a.Levels[4]; len(a.Levels) != 5+4+6 || l.Dimension != "cooperation" || l.Level != 4 || l.Successes != 9 || l.Dialogues != 10 {
		t.Errorf("level %+v of %d", l, len(a.Levels))
	}
	low, high := Wilson(4, 5)
	b, err := json.Marshal(a.TooEasy[1])
	if want := fmt.Sprintf(`{"state":[4,3,5],"dialogues":5,"successes":4,"rate":0.8,"low":%v,"high":%v}`, low, high); err != nil || string(b) != want {
		t.Errorf("JSON %s, want %s", b, want)
	}
	grid := strings.Split(a.Grid(), "\n")
	if last := strings.Fields(grid[20]); strings.Join(last, " ") != "4 3 . . . . 100% 5 80% 5" {
		t.Errorf("row of cooperation 4, emotion 3: %v", last)
	}
	summary := a.Summary() // cooperation 4: 9 of 10
	for _, want := range []string{"2 too hard, 2 ideal, 2 too easy, 2 with too few", "1 dialogues of unknown", "4: 90% of 10\n"} {
		if !strings.Contains(summary, want) {
			t.Errorf("summary lacks %q:\n%s", want, summary)
		}
	}
	if empty, _ := json.Marshal(Analyse(s, nil, DefaultBands()).TooHard); string(empty) != "[]" {
		t.Errorf("no dialogues: %s", empty)
	}
}
