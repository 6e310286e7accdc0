package scenarios

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"seadtrain/dialogue"
)

// small is a sound scenario file; tests spoil one place of it and name the line that must be blamed.
const small = `name = "booking"
language = "en"
max_turns = 4

[[dimensions]]
name = "patience"
levels = 2
labels = ["short", "long"]

[[stages]]
id = 0
name = "book"
goal = "Book a table."

[agent]
prompt = "You book tables."

[[agent.protocol.fields]]
tag = "response"
kind = "text"
means = "reply"

[[agent.protocol.fields]]
tag = "status"
kind = "int"
min = -1
max = 1
means = "status"

[user]
prompt = """
You are a guest.
{profile}
"""
profile_text = "{state}: {behaviours}"

[user.protocol]
separator = "\n"
fields = [
    { tag = "reply", kind = "text", means = "reply", max_tokens = 40 },
    { tag = "patience", kind = "enum", values = ["p0", "p1"], means = "state:patience" },
    { tag = "end", kind = "enum", values = ["no", "on", "yes"], means = "status" },
]

[[behaviours]]
id = "calm"
category = "mood"
text = "You stay calm."

[[behaviours]]
id = "hurry"
category = "mood"
text = "You hurry."
contradicts = { patience = [1] }
`

func TestParse(t *testing.T) {
	scn, err := parse("f.toml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	want := &dialogue.Scenario{
		Name: "booking", Language: "en", MaxTurns: 4,
		Dimensions: []dialogue.Dimension{{Name: "patience", Levels: 2, Labels: []string{"short", "long"}}},
		Stages:     []dialogue.Stage{{ID: 0, Name: "book", Goal: "Book a table."}},
		Agent: dialogue.Side{Prompt: "You book tables.", Protocol: dialogue.Protocol{Fields: []dialogue.Field{
			{Tag: "response", Kind: dialogue.Text, Means: "reply"},
			{Tag: "status", Kind: dialogue.Int, Min: -1, Max: 1, Means: "status"},
		}}},
		User: dialogue.Side{
			Prompt: "You are a guest.\n{profile}\n", ProfileText: "{state}: {behaviours}",
			Protocol: dialogue.Protocol{Separator: "\n", Fields: []dialogue.Field{
				{Tag: "reply", Kind: dialogue.Text, Means: "reply", MaxTokens: 40},
				{Tag: "patience", Kind: dialogue.Enum, Values: []string{"p0", "p1"}, Means: "state:patience"},
				{Tag: "end", Kind: dialogue.Enum, Values: []string{"no", "on", "yes"}, Means: "status"},
			}},
		},
		Behaviours: []dialogue.Behaviour{
			{ID: "calm", Category: "mood", Text: "You stay calm."},
			{ID: "hurry", Category: "mood", Text: "You hurry.", Contradicts: map[string][]int{"patience": {1}}},
		},
	}
	if !reflect.DeepEqual(scn, want) {
		t.Errorf("\n got %+v\nwant %+v", scn, want)
	}
}

func TestParseErrorsNameTheLine(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"max_turns = 4", "max_turn = 4", `f.toml:3: max_turn: unknown key: did you mean "max_turns"?`},
		{"goal = ", "gaol = ", `f.toml:13: stages.gaol: unknown key: did you mean "goal"?`},
		{"max_tokens", "max_tokns", `f.toml:40: user.protocol.max_tokns: unknown key: did you mean "max_tokens"?`},
		{"[[stages]]", "[[stage]]", `f.toml:10: stage: unknown key: did you mean "stages"?`},
		{`category = "mood"`, `colour = "blue"`, "f.toml:47: behaviours.colour: unknown key\n"},
		{"levels = 2", `levels = "two"`, "f.toml:7: "},
		{"levels = 2", "levels = ", "f.toml:7: "},
		{"levels = 2", "levels = 2\nlevels = 3", "f.toml:8: "},
		{"max_turns = 4\n", "", "f.toml:1: max_turns: 0: want at least 1"},
		{`"long"]`, `"long", "longer"]`, "f.toml:8: dimensions[0].labels: 3 labels for 2 levels"},
		{`goal = "Book a table."` + "\n", "", "f.toml:10: stages[0].goal: missing"},
		{"min = -1", "min = 0", "f.toml:27: agent.protocol.fields[1].max: status runs from -1 to 1"},
		{"state:patience", "state:patients", `f.toml:41: user.protocol.fields[1].means: "state:patients": no dimension of that name; there are patience`},
		{"{profile}\n", "{profile}.\n", "f.toml:31: user.prompt: want {profile} once, at the very end"},
		{`id = "hurry"`, `id = "calm"`, `f.toml:51: behaviours[1].id: "calm" is already behaviours[0]`},
		{"patience = [1]", "trust = [1]", "f.toml:54: behaviours[1].contradicts.trust: no dimension of that name; there are patience"},
		{"patience = [1]", "patience = [2]", "f.toml:54: behaviours[1].contradicts.patience: level 2: want 0..1"},
	} {
		spoilt := strings.Replace(small, c.old, c.new, 1)
		if spoilt == small {
			t.Fatalf("%q is not in the file", c.old)
		}
		_, err := parse("f.toml", []byte(spoilt))
		if err == nil || !strings.Contains(err.Error()+"\n", c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.new, err, c.want)
		}
	}
	// all at once
	_, err := parse("f.toml", []byte(strings.NewReplacer("max_turns = 4", "max_turns = 0", `"calm"`, `"Calm"`).Replace(small)))
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two problems, two lines: %v", err)
	}
}

// Tables that come after an array of tables belong to its last element.
func TestLinesInsideArraysOfTables(t *testing.T) {
	lines := keyLines([]byte("[[a]]\nx = 1\n[a.b]\ny = 2\n[[a]]\n[a.b]\ny = 3\nz = [{u = 1}, {u = 2}]\nq.r = 4\n"))
	for path, want := range map[string]int{
		"a[0]": 1, "a[0].x": 2, "a[0].b": 3, "a[0].b.y": 4, "a[1]": 5, "a[1].b.y": 7, "a[1].b.z[1].u": 8, "a[1].b.q.r": 9,
		"a[1].b.missing": 6, "a[0].b.z[3]": 3, "other": 1,
	} {
		if got := lines.of(path); got != want {
			t.Errorf("%s: line %d, want %d", path, got, want)
		}
	}
}

func TestLoadFileAndNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.toml")
	if err := os.WriteFile(file, []byte(small), 0o644); err != nil {
		t.Fatal(err)
	}
	if scn, err := LoadFile(file); err != nil || scn.Name != "booking" {
		t.Errorf("%+v, %v", scn, err)
	}
	if _, err := LoadFile(file + "x"); err == nil || !strings.Contains(err.Error(), file+"x") {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Load("outbound", "fr"); err == nil || !strings.Contains(err.Error(), "there are ") || !strings.Contains(err.Error(), "outbound/en") {
		t.Errorf("unknown scenario: %v", err)
	}
	if _, err := Load("..", "en"); err == nil {
		t.Error("a name is no path")
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"goal", "gaol", 2}, {"levels", "level", 1}, {"kitten", "sitting", 3}} {
		if d, r := editDistance(c.a, c.b), editDistance(c.b, c.a); d != c.want || r != c.want {
			t.Errorf("%q, %q: %d and %d, want %d", c.a, c.b, d, r, c.want)
		}
	}
}
