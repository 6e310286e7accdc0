package scenarios

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"seadtrain/dialogue"
)

func TestLoadLibrary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "library.json")
	const text = `{
  "User_Persona_Classification": {
    "2. Cost": ["asks about fees", " haggles "],
    "1. 身份": ["asks who is calling"],
    "Urgency": ["asks about fees"],
    "14、细节": []
  }
}
`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := LoadLibrary(file)
	want := []dialogue.Behaviour{ // in file order, ids by place
		{ID: "1.01", Category: "Cost", Text: "asks about fees"},
		{ID: "1.02", Category: "Cost", Text: "haggles"},
		{ID: "2.01", Category: "身份", Text: "asks who is calling"},
		{ID: "3.01", Category: "Urgency", Text: "asks about fees"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\n got %+v\nwant %+v", err, got, want)
	}
	scn, err := Load("outbound", "en")
	if err != nil {
		t.Fatal(err)
	}
	if scn.Behaviours = got; len(scn.Validate()) != 0 {
		t.Errorf("a scenario with a published library: %v", scn.Validate())
	}
}

func TestLoadLibraryErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, "l.json:1: want {\"User_Persona_Classification\""},
		{`[]`, "l.json:1: want {"},
		{`{"Personas": {}}`, "l.json:1: want {"},
		{`{"User_Persona_Classification": ["a"]}`, "l.json:1: want {"},
		{`{"User_Persona_Classification": {}}`, "has no behaviours"},
		{"{\"User_Persona_Classification\": {\n\"1. A\": [\"x\"],\n\"2. B\": \"y\"}}", `l.json:3: category "2. B": want a list of strings`},
		{"{\"User_Persona_Classification\": {\n\"1. A\": [\"x\", \"\"]}}", `l.json:2: category "1. A": behaviour 2 is empty`},
		{`{"User_Persona_Classification": {"3.": ["x"]}}`, `category "3." has no name`},
		{`{"User_Persona_Classification": {"1. A": ["x"]`, "l.json:1: "},
		{`{"User_Persona_Classification": {"1. A": ["x"]}, "more": 1}`, "l.json:1: want {"},
		{`{"User_Persona_Classification": {"1. A": ["x"]}} {}`, "more text"},
	} {
		if _, err := parseLibrary("l.json", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}
