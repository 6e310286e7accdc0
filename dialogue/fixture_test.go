package dialogue

import "testing"

// fixture is a small sound scenario: a 2×3 grid, an enum status on the user's side, a separator on the agent's.
func fixture() *Scenario {
	return &Scenario{
		Name: "booking", Language: "en", MaxTurns: 2,
		Dimensions: []Dimension{
			{Name: "patience", Levels: 2, Labels: []string{"short", "long"}},
			{Name: "trust", Levels: 3},
		},
		Stages: []Stage{{0, "greet", "Say hello."}, {1, "book", "Book a table."}},
		Behaviours: []Behaviour{
			{ID: "a.calm", Category: "a", Text: "You stay calm."},
			{ID: "b.hurry", Category: "b", Text: "You hurry.", Contradicts: map[string][]int{"patience": {1}}},
			{ID: "b.doubt", Category: "b", Text: "You doubt.", Contradicts: map[string][]int{"patience": {0}, "trust": {2}}},
		},
		Agent: Side{Prompt: "You book tables.\n", Protocol: Protocol{Separator: "\n", Fields: []Field{
			{Tag: "response", Kind: Text, Means: MeansReply, MaxTokens: 9},
			{Tag: "trust_score", Kind: Int, Min: 0, Max: 2, Means: MeansState + "trust"},
			{Tag: "stage", Kind: Int, Min: 0, Max: 1, Means: MeansStage},
			{Tag: "status", Kind: Int, Min: -1, Max: 1, Means: MeansStatus},
		}}},
		User: Side{
			Prompt:      "You are a guest.\n\n{profile}\n",
			ProfileText: "Patience {patience.label}, trust {trust}: {behaviours}\n",
			Join:        "; ",
			Protocol: Protocol{Fields: []Field{
				{Tag: "think", Kind: Text, Means: MeansPrivate},
				{Tag: "reply", Kind: Text, Means: MeansReply},
				{Tag: "patience", Kind: Enum, Values: []string{"p0", "p1"}, Means: MeansState + "patience"},
				{Tag: "trust", Kind: Enum, Values: []string{"t0", "t1", "t2"}, Means: MeansState + "trust"},
				{Tag: "end", Kind: Enum, Values: []string{"hang_up", "go_on", "agree"}, Means: MeansStatus},
			}},
		},
	}
}

// say builds well-formed messages of the fixture.
func agentSays(t testing.TB, s *Scenario, reply, status string) Message {
	t.Helper()
	return mustRead(t, s, Agent, s.Agent.Protocol.Render(map[string]string{
		"response": reply, "trust_score": "1", "stage": "0", "status": status}))
}

func userSays(t testing.TB, s *Scenario, reply, end string) Message {
	t.Helper()
	return mustRead(t, s, User, s.User.Protocol.Render(map[string]string{
		"think": "secret", "reply": reply, "patience": "p1", "trust": "t2", "end": end}))
}

func mustRead(t testing.TB, s *Scenario, r Role, text string) Message {
	t.Helper()
	m := s.ReadMessage(r, text, false)
	if m.Fault != "" {
		t.Fatalf("fixture message %q: %s", text, m.Fault)
	}
	return m
}
