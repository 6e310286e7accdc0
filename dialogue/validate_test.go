package dialogue

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	if problems := fixture().Validate(); len(problems) != 0 {
		t.Fatalf("the fixture is sound: %v", problems)
	}
	userField := func(i int) func(*Scenario) *Field {
		return func(s *Scenario) *Field { return &s.User.Protocol.Fields[i] }
	}
	patience, trust, end := userField(2), userField(3), userField(4)
	agentField := func(s *Scenario, i int) *Field { return &s.Agent.Protocol.Fields[i] }
	for _, c := range []struct {
		want  string // path: start of the text
		spoil func(*Scenario)
	}{
		{"name: ", func(s *Scenario) { s.Name = "Booking!" }},
		{"language: ", func(s *Scenario) { s.Language = "" }},
		{"max_turns: 0", func(s *Scenario) { s.MaxTurns = 0 }},
		{"dimensions[1].name: \"patience\" is already", func(s *Scenario) { s.Dimensions[1].Name = "patience" }},
		{"dimensions[0].levels: 1", func(s *Scenario) { s.Dimensions[0].Levels = 1 }},
		{"dimensions[0].labels: 1 labels for 2", func(s *Scenario) { s.Dimensions[0].Labels = []string{"short"} }},
		{"dimensions[1].levels: the grid has more", func(s *Scenario) { s.Dimensions[1].Levels = 1 << 16 }},
		{"dimensions: missing", func(s *Scenario) { s.Dimensions = nil }},
		{"stages: missing", func(s *Scenario) { s.Stages = nil }},
		{"stages[1].id: 2", func(s *Scenario) { s.Stages[1].ID = 2 }},
		{"stages[0].name: missing", func(s *Scenario) { s.Stages[0].Name = "" }},
		{"stages[0].goal: missing", func(s *Scenario) { s.Stages[0].Goal = "" }},
		{"behaviours: missing", func(s *Scenario) { s.Behaviours = nil }},
		{"behaviours: every one contradicts state 1-2", func(s *Scenario) { s.Behaviours = s.Behaviours[1:] }},
		{"behaviours[1].id: \"a.calm\" is already behaviours[0]", func(s *Scenario) { s.Behaviours[1].ID = "a.calm" }},
		{"behaviours[0].id: \"A calm\"", func(s *Scenario) { s.Behaviours[0].ID = "A calm" }},
		{"behaviours[0].category: missing", func(s *Scenario) { s.Behaviours[0].Category = "" }},
		{"behaviours[0].text: missing", func(s *Scenario) { s.Behaviours[0].Text = "" }},
		{"behaviours[1].contradicts.mood: no dimension of that name; there are patience, trust",
			func(s *Scenario) { s.Behaviours[1].Contradicts = map[string][]int{"mood": {1}} }},
		{"behaviours[1].contradicts.trust: level 3", func(s *Scenario) { s.Behaviours[1].Contradicts["trust"] = []int{3} }},
		{"behaviours[1].contradicts.trust: level 1 twice", func(s *Scenario) { s.Behaviours[1].Contradicts["trust"] = []int{1, 1} }},
		{"behaviours[1].contradicts.trust: every level", func(s *Scenario) { s.Behaviours[1].Contradicts["trust"] = []int{0, 1, 2} }},
		{"behaviours[1].contradicts.trust: no levels", func(s *Scenario) { s.Behaviours[1].Contradicts["trust"] = nil }},

		{"agent.prompt: missing", func(s *Scenario) { s.Agent.Prompt = "\n" }},
		{"agent.prompt: {profile} belongs", func(s *Scenario) { s.Agent.Prompt = "See {profile}." }},
		{"agent.profile_text: ", func(s *Scenario) { s.Agent.ProfileText = "x" }},
		{"user.prompt: want {profile} once", func(s *Scenario) { s.User.Prompt = "{profile} You are a guest." }},
		{"user.prompt: want {profile} once", func(s *Scenario) { s.User.Prompt = "{profile} {profile}" }},
		{"user.profile_text: want {behaviours}", func(s *Scenario) { s.User.ProfileText = "{state}" }},
		{"user.profile_text: want {state}", func(s *Scenario) { s.User.ProfileText = "{patience} {behaviours}" }},
		{"user.profile_text: nothing fills in {trust.label}", func(s *Scenario) { s.User.ProfileText += "{trust.label}" }},

		{"agent.protocol.separator: ", func(s *Scenario) { s.Agent.Protocol.Separator = ", " }},
		{"agent.protocol.fields: no field means \"reply\"", func(s *Scenario) { s.Agent.Protocol.Fields = s.Agent.Protocol.Fields[1:] }},
		{"user.protocol.fields: no field means \"state:trust\"", func(s *Scenario) { trust(s).Means = "state:patience" }},
		{"user.protocol.fields[3].means: \"state:patience\" is already", func(s *Scenario) { trust(s).Means = "state:patience" }},
		{"agent.protocol.fields[1].means: \"state:mood\"", func(s *Scenario) { agentField(s, 1).Means = "state:mood" }},
		{"agent.protocol.fields[1].means: \"mood\": want reply", func(s *Scenario) { agentField(s, 1).Means = "mood" }},
		{"agent.protocol.fields[1].tag: \"trust score\"", func(s *Scenario) { agentField(s, 1).Tag = "trust score" }},
		{"agent.protocol.fields[1].tag: \"response\" is already", func(s *Scenario) { agentField(s, 1).Tag = "response" }},
		{"agent.protocol.fields[1].kind: \"float\"", func(s *Scenario) { agentField(s, 1).Kind = "float" }},
		{"agent.protocol.fields[1].kind: state:trust is a number", func(s *Scenario) { *agentField(s, 1) = Field{Tag: "x", Kind: Text, Means: "state:trust"} }},
		{"agent.protocol.fields[0].kind: a reply is text", func(s *Scenario) { *agentField(s, 0) = Field{Tag: "x", Kind: Int, Max: 1, Means: MeansReply} }},
		{"agent.protocol.fields[1].max: state:trust runs from 0 to 2, the field from 0 to 3", func(s *Scenario) { agentField(s, 1).Max = 3 }},
		{"agent.protocol.fields[2].max: stage runs from 0 to 1", func(s *Scenario) { agentField(s, 2).Max = 3 }},
		{"agent.protocol.fields[3].max: status runs from -1 to 1", func(s *Scenario) { agentField(s, 3).Min = 0 }},
		{"agent.protocol.fields[3].max: -2 is below", func(s *Scenario) { agentField(s, 3).Max = -2 }},
		{"agent.protocol.fields[1].max_tokens: only a text", func(s *Scenario) { agentField(s, 1).MaxTokens = 3 }},
		{"agent.protocol.fields[0].max_tokens: -1", func(s *Scenario) { agentField(s, 0).MaxTokens = -1 }},
		{"agent.protocol.fields[0].min: only an int", func(s *Scenario) { agentField(s, 0).Max = 3 }},
		{"agent.protocol.fields[0].values: only an enum", func(s *Scenario) { agentField(s, 0).Values = []string{"a"} }},
		{"user.protocol.fields[3].values: 2 words", func(s *Scenario) { trust(s).Values = []string{"t0", "t1"} }},
		{"user.protocol.fields[4].values: 4 words", func(s *Scenario) { end(s).Values = append(end(s).Values, "x") }},
		{"user.protocol.fields[2].values: \"p0\" twice", func(s *Scenario) { patience(s).Values = []string{"p0", "p0"} }},
		{"user.protocol.fields[2].values: \"a<b\"", func(s *Scenario) { patience(s).Values[0] = "a<b" }},
		{"user.protocol.fields[2].values: \" p\"", func(s *Scenario) { patience(s).Values[0] = " p" }},
	} {
		s := fixture()
		c.spoil(s)
		found := false
		for _, p := range s.Validate() {
			found = found || strings.HasPrefix(p.String(), c.want)
		}
		if !found {
			t.Errorf("want a problem %q, have %v", c.want, s.Validate())
		}
	}
}
