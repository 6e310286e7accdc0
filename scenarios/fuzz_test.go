package scenarios

import (
	"strings"
	"testing"
)

// Whatever the text is, a library is refused with its file and line, or its behaviours have a name, a text and an id each.
func FuzzParseLibrary(f *testing.F) {
	f.Add([]byte(`{"User_Persona_Classification":{"1. Busy":["You are busy.","You drive."],"2. Calm":["You have time."]}}`))
	f.Add([]byte(`{"User_Persona_Classification":{"1. Busy":["You are busy."]}} {}`))
	f.Add([]byte(`{"User_Persona_Classification":{"1. ":[""]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseLibrary("a.json", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "a.json:") {
				t.Fatalf("no file and line in %q", err)
			}
			return
		}
		ids := map[string]bool{}
		for _, b := range all {
			if b.Category == "" || b.Text == "" || ids[b.ID] {
				t.Fatalf("%+v", b)
			}
			ids[b.ID] = true
		}
	})
}
