package dialogue

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// episodes is one of each kind that a file must carry.
func episodes(t testing.TB) []Episode {
	s := fixture()
	profile := s.NewProfile(State{1, 0}, []string{"b.doubt"})
	full := Episode{
		ID: "3-0-1", Profile: profile, Group: 0, Member: 1, Seed: math.MaxUint64,
		Messages: []Message{agentSays(t, s, `Hello & "welcome" – 您好`, "1"), userSays(t, s, "Yes.\u2028Fine.", "agree")},
		Agent: Trace{Tokens: []int32{1, 2, 3}, Loss: []bool{false, true, true}, Sets: []int32{0, 0, 7},
			LogProbs: []float32{0, -0.1, -1e-7}, Temperature: 1.2},
		User: Trace{Tokens: []int32{4}, Loss: []bool{false}, Sets: []int32{0}, LogProbs: []float32{0}, Temperature: 0.9},
	}
	full.Messages[0].Closed = true
	failed := Episode{ID: "3-1-0", Profile: profile, Group: 1,
		Messages: []Message{agentSays(t, s, "Hello.", "0"), userSays(t, s, "Hm.", "go_on"), s.ReadMessage(Agent, "no\x00 \xff <tags", false)}}
	for _, ep := range []*Episode{&full, &failed} {
		o, err := s.Judge(ep.Messages)
		if err != nil || !o.Done {
			t.Fatalf("fixture episode: %+v, %v", o, err)
		}
		ep.Finish(o)
	}
	lost := Episode{ID: "3-1-1", Profile: s.NewProfile(nil, nil), Group: 1, Member: 1, End: EndInfrastructure, Err: "timeout"}
	return []Episode{full, failed, lost}
}

func TestEpisodesReadBackIdentical(t *testing.T) {
	want := episodes(t)
	path := filepath.Join(t.TempDir(), "episodes.jsonl")
	if err := WriteEpisodes(path, want, WriteOptions{Trace: true}); err != nil {
		t.Fatal(err)
	}
	got, err := ReadEpisodes(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\n got %+v\nwant %+v", err, got, want)
	}
	// without traces all else stays, and a second round changes no byte
	if err := WriteEpisodes(path, want, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	first, _ := os.ReadFile(path)
	if got, err = ReadEpisodes(path); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		want[i].Agent, want[i].User = Trace{}, Trace{}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("without traces\n got %+v\nwant %+v", got, want)
	}
	if err := WriteEpisodes(path, got, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if second, _ := os.ReadFile(path); !bytes.Equal(first, second) || bytes.Contains(first, []byte(`"trace"`)) {
		t.Errorf("the second file differs from the first:\n%s\n%s", first, second)
	}
}

// The first four keys, and nothing of them changed, are what other people's scripts read.
func TestRecordIsThePublishedOne(t *testing.T) {
	line, err := MarshalEpisode(&episodes(t)[1], WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatal(err)
	}
	history := r["ground_truth_history"].([]any)
	for i, want := range []map[string]any{
		{"role": "assistant", "content": "<response>Hello.</response>\n<trust_score>1</trust_score>\n<stage>0</stage>\n<status>0</status>"},
		{"role": "user", "content": "<think>secret</think><reply>Hm.</reply><patience>p1</patience><trust>t2</trust><end>go_on</end>"},
		{"role": "assistant", "content": "no� � <tags"},
	} {
		if !reflect.DeepEqual(history[i], want) {
			t.Errorf("history[%d] = %v, want %v", i, history[i], want)
		}
	}
	for key, want := range map[string]any{
		"chatbot_status": 0., "final_status": 0., "total_turns": 2., "end": "agent_malformed", "fault": "text_outside",
		"reward": 0., "excluded": false, "id": "3-1-0", "group": 1., "member": 0.,
	} {
		if r[key] != want {
			t.Errorf("%s = %v, want %v", key, r[key], want)
		}
	}
	if !bytes.Contains(line, []byte("<response>")) || bytes.Count(line, []byte("\n")) != 1 {
		t.Errorf("tags must stay readable, one line each: %s", line)
	}
}

func TestReadPublished(t *testing.T) {
	const file = "\ufeff" + `{"ground_truth_history": [{"role": "assistant", "content": "<response>Hi\n</response> <stage>0</stage>"},` +
		` {"role": "user", "content": "<user_reply>Yes</user_reply><user_status>1</user_status>"}],` +
		` "chatbot_status": "1", "final_status": 1.0, "total_turns": 1, "extra": {"kept": "out"},` +
		` "profile": {"scenario": "outbound", "language": "zh", "behaviours": [], "state": []}}` + "\r\n\n" +
		`{"ground_truth_history": [], "chatbot_status": null, "final_status": -1, "total_turns": 0}`
	var got []Episode
	for ep, err := range Episodes(strings.NewReader(file), "f") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ep)
	}
	want := []Episode{
		{Reward: 1, Turns: 1, ChatbotStatus: 1, FinalStatus: 1,
			Profile: Profile{ID: "81dfe8af03db", Scenario: "outbound", Language: "zh", State: State{}, Behaviours: []string{}}, Messages: []Message{
				{Role: Agent, Content: "<response>Hi\n</response> <stage>0</stage>", Values: map[string]string{"response": "Hi", "stage": "0"}},
				{Role: User, Content: "<user_reply>Yes</user_reply><user_status>1</user_status>",
					Values: map[string]string{"user_reply": "Yes", "user_status": "1"}},
			}},
		{FinalStatus: -1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	if got[0].End != "" || got[0].End.Excluded() {
		t.Errorf("the end of a published record is unknown and not excluded: %q", got[0].End)
	}
}

func TestReadErrorsNameFileLineAndField(t *testing.T) {
	const ok = `{"ground_truth_history": [], "chatbot_status": 0, "final_status": 0, "total_turns": 3}`
	for _, c := range []struct{ line, want string }{
		{`[` + ok + `]`, "ep.jsonl:2: a JSON array: want one JSON object per line"},
		{ok[:40], "ep.jsonl:2: no JSON object (at byte 40"},
		{ok + ok, "ep.jsonl:2: no JSON object"},
		{`not json`, "ep.jsonl:2: no JSON object"},
		{"{\"id\": \"\xff\"}", "ep.jsonl:2: byte 9 of the line, 0xff, is not valid UTF-8"},
		{`{}`, "ground_truth_history: missing"},
		{strings.Replace(ok, `"final_status": 0, `, "", 1), "ep.jsonl:2: final_status: missing"},
		{strings.Replace(ok, `: 3}`, `: null}`, 1), "ep.jsonl:2: total_turns: missing"},
		{strings.Replace(ok, `: 3}`, `: -3}`, 1), "total_turns: -3"},
		{strings.Replace(ok, `: 3}`, `: 1.5}`, 1), "1.5 is no whole number"},
		{strings.Replace(ok, `"final_status": 0`, `"final_status": 2`, 1), "final_status: 2: want -1, 0 or 1"},
		{strings.Replace(ok, `[]`, `[{"role": "bot", "content": ""}]`, 1), `ground_truth_history[0].role: "bot"`},
		{strings.Replace(ok, `[]`, `[{"role": "user", "content": 7}]`, 1), "ground_truth_history.content: a JSON number does not fit"},
		{strings.Replace(ok, `[]`, `[], "end": "bored"`, 1), `end: "bored"`},
		{strings.Replace(ok, `[]`, `[], "fault": "ugly"`, 1), `fault: "ugly"`},
	} {
		n := 0
		for _, err := range Episodes(strings.NewReader(ok+"\n"+c.line+"\n"+ok), "ep.jsonl") {
			if n++; n == 1 {
				if err != nil {
					t.Errorf("%s: first line: %v", c.line, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "ep.jsonl:2: ") {
				t.Errorf("%s:\n got %v\nwant %s", c.line, err, c.want)
			}
		}
		if n != 2 {
			t.Errorf("%s: reading went on to line %d", c.line, n)
		}
	}
	if _, err := ReadEpisodes(filepath.Join(t.TempDir(), "none.jsonl")); err == nil || !strings.Contains(err.Error(), "none.jsonl") {
		t.Errorf("missing file: %v", err)
	}
}

func TestMarshalRefusesWhatCannotBeReadBack(t *testing.T) {
	for _, c := range []struct {
		want  string
		spoil func(*Episode)
	}{
		{"message 0 is not valid UTF-8", func(ep *Episode) { ep.Messages[0].Content = "\xff" }},
		{"message 0 is malformed (bad_value) but not the last", func(ep *Episode) { ep.Messages[0].Fault = FaultBadValue }},
		{"message 1: its values are not those of its text", func(ep *Episode) { ep.Messages[1].Values["end"] = "go_on" }},
		{"unsupported value: NaN", func(ep *Episode) { ep.Agent.LogProbs[1] = float32(math.NaN()) }},
	} {
		ep := episodes(t)[0]
		c.spoil(&ep)
		if _, err := MarshalEpisode(&ep, WriteOptions{Trace: true}); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), `"3-0-1"`) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
