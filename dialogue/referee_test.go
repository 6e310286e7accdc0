package dialogue

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	s := fixture() // two turns at most
	a := func(status string) Message { return agentSays(t, s, "Hello.", status) }
	u := func(end string) Message { return userSays(t, s, "Well.", end) }
	badAgent := s.ReadMessage(Agent, "nonsense", false)
	badUser := s.ReadMessage(User, "nonsense", false)
	for _, c := range []struct {
		name     string
		messages []Message
		want     Outcome
	}{
		{"nothing yet", nil, Outcome{Next: Agent}},
		{"agent has spoken", []Message{a("0")}, Outcome{Next: User, Turns: 1}},
		{"one turn", []Message{a("0"), u("go_on")}, Outcome{Next: Agent, Turns: 1}},
		{"agreed", []Message{a("0"), u("agree")}, Outcome{Done: true, End: EndAgreed, Reward: 1, Turns: 1, FinalStatus: 1}},
		{"hung up", []Message{a("0"), u("hang_up")}, Outcome{Done: true, End: EndHungUp, Turns: 1, FinalStatus: -1}},
		{"a claim ends nothing", []Message{a("1"), u("go_on")}, Outcome{Next: Agent, Turns: 1, ChatbotStatus: 1}},
		{"a claim withdrawn", []Message{a("1"), u("go_on"), a("0")}, Outcome{Next: User, Turns: 2}},
		{"a false claim", []Message{a("1"), u("hang_up")},
			Outcome{Done: true, End: EndHungUp, Turns: 1, ChatbotStatus: 1, FinalStatus: -1}},
		{"gave up, without an answer", []Message{a("0"), u("go_on"), a("-1")},
			Outcome{Done: true, End: EndGaveUp, Turns: 2, ChatbotStatus: -1, FinalStatus: -1}},
		{"turn limit", []Message{a("0"), u("go_on"), a("1"), u("go_on")},
			Outcome{Done: true, End: EndTurnLimit, Turns: 2, ChatbotStatus: 1}},
		{"agreed in the last turn", []Message{a("0"), u("go_on"), a("0"), u("agree")},
			Outcome{Done: true, End: EndAgreed, Reward: 1, Turns: 2, FinalStatus: 1}},
		{"agent malformed at once", []Message{badAgent}, Outcome{Done: true, End: EndAgentMalformed, Turns: 1}},
		{"agent malformed after a claim", []Message{a("1"), u("go_on"), badAgent},
			Outcome{Done: true, End: EndAgentMalformed, Turns: 2, ChatbotStatus: 1}},
		{"user malformed", []Message{a("1"), badUser},
			Outcome{Done: true, End: EndUserMalformed, Turns: 1, ChatbotStatus: 1}},
	} {
		got, err := s.Judge(c.messages)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.want.Done {
			got.Next = c.want.Next // meaningless
		}
		if got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
	for name, messages := range map[string][]Message{
		"user first":    {u("go_on")},
		"agent twice":   {a("0"), a("0")},
		"after the end": {a("0"), u("agree"), a("0")},
	} {
		if _, err := s.Judge(messages); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestStopAndFinish(t *testing.T) {
	s := fixture()
	goesOn, _ := s.Judge([]Message{agentSays(t, s, "Hello.", "1"), userSays(t, s, "Well.", "go_on")})
	var ep Episode
	ep.Finish(goesOn.Stop(EndContextLimit))
	if ep.End != EndContextLimit || ep.Reward != 0 || ep.Turns != 1 || ep.ChatbotStatus != 1 || ep.FinalStatus != 0 {
		t.Errorf("stopped: %+v", ep)
	}
	agreed, _ := s.Judge([]Message{agentSays(t, s, "Hello.", "0"), userSays(t, s, "Yes.", "agree")})
	ep.Finish(agreed.Stop(EndCancelled))
	if ep.End != EndAgreed || ep.Reward != 1 {
		t.Errorf("an ended dialogue must keep its end: %+v", ep)
	}
}

func TestExcluded(t *testing.T) {
	// design: the agent's faults and limits count against it; the user's, ours and the caller's do not
	want := map[End]bool{EndUserMalformed: true, EndUserContext: true, EndInfrastructure: true, EndCancelled: true}
	for _, e := range Ends {
		if e.Excluded() != want[e] {
			t.Errorf("%s: excluded %t", e, e.Excluded())
		}
	}
}

func TestVisibility(t *testing.T) {
	s := fixture()
	m := userSays(t, s, "Good day.", "go_on")
	if got := s.AgentHears(m); got != "Good day." || strings.Contains(got, "secret") {
		t.Errorf("agent hears %q", got)
	}
	if got := s.UserHears(agentSays(t, s, "Hello.", "1")); got != "Hello." {
		t.Errorf("user hears %q", got)
	}
	// a malformed message must not leak: its values are unknown, so nothing of it is heard
	if got := s.AgentHears(s.ReadMessage(User, "<think>secret</think><reply>Hi", false)); got != "" {
		t.Errorf("agent hears %q of a malformed message", got)
	}
}
