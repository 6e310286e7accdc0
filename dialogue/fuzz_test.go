package dialogue

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// What Parse accepts is canonical: rendering and parsing it again changes nothing, and Extract agrees. What it refuses
// has a known class. Neither side's parser ever accepts a message that carries a second copy of a field.
func FuzzParse(f *testing.F) {
	s := fixture()
	for _, seed := range []string{
		"", "<response>Hi</response><trust_score>1</trust_score><stage>0</stage><status>0</status>",
		"<think>a</think><reply>b</reply><patience>p0</patience><trust>t1</trust><end>go_on</end>",
		" <response> a\x00\xff </response>\n<trust_score>1</trust_score> <stage>1</stage>\t<status>-1</status>\r\n",
		"<response>Hi</resp", "<response>a < b</response>", "x<response>", "<response><response>Hi</response>",
		"<end>agree</end>", "<reply></reply>", "<trust_score>01</trust_score>",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range []*Protocol{&s.Agent.Protocol, &s.User.Protocol} {
			values, fault := p.Parse(text)
			if fault != "" {
				if values != nil || !slices.Contains(Faults, fault) || fault == FaultTruncated {
					t.Fatalf("fault %q with values %v", fault, values)
				}
				continue
			}
			if len(values) != len(p.Fields) {
				t.Fatalf("%d values for %d fields", len(values), len(p.Fields))
			}
			for _, field := range p.Fields {
				if v := values[field.Tag]; strings.Contains(v, "<") || strings.Contains(v, "\x00") || !utf8.ValidString(v) {
					t.Fatalf("%s holds %q", field.Tag, v)
				}
				if strings.Count(text, field.Open()) != 1 {
					t.Fatalf("accepted %q with %d of %s", text, strings.Count(text, field.Open()), field.Open())
				}
			}
			if again, fault := p.Parse(p.Render(values)); fault != "" || !maps.Equal(again, values) {
				t.Fatalf("again: %v %q, first %v", again, fault, values)
			}
			if extracted := Extract(Clean(text)); !maps.Equal(extracted, values) {
				t.Fatalf("Extract gives %v, Parse %v", extracted, values)
			}
		}
	})
}

// Reading never panics, and what was read is written and read back the same.
func FuzzRecord(f *testing.F) {
	for _, ep := range episodes(f) {
		for _, trace := range []bool{false, true} {
			line, err := MarshalEpisode(&ep, WriteOptions{Trace: trace})
			if err != nil {
				f.Fatal(err)
			}
			f.Add(line)
		}
	}
	f.Add([]byte(`{"ground_truth_history":[{"role":"user","content":"<a>1</a>"}],"chatbot_status":"1","final_status":1.0,"total_turns":2}`))
	f.Add([]byte(`{"ground_truth_history":[],"final_status":null}`))
	f.Add([]byte("{}\n[]\n\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		for ep, err := range Episodes(bytes.NewReader(file), "f") {
			if err != nil {
				if !strings.HasPrefix(err.Error(), "f:") {
					t.Fatalf("no file and line in %q", err)
				}
				return
			}
			line, err := MarshalEpisode(&ep, WriteOptions{Trace: true})
			if err != nil {
				t.Fatalf("read but not to be written: %v", err)
			}
			for again, err := range Episodes(bytes.NewReader(line), "f") {
				if err != nil || !sameEpisode(again, ep) {
					t.Fatalf("%v\nagain %+v\nfirst %+v", err, again, ep)
				}
			}
		}
	})
}

// sameEpisode: equal but for nil against empty, and for keys that hold nothing without their companions.
func sameEpisode(a, b Episode) bool {
	la, errA := MarshalEpisode(&a, WriteOptions{Trace: true})
	lb, errB := MarshalEpisode(&b, WriteOptions{Trace: true})
	return errA == nil && errB == nil && bytes.Equal(la, lb) && reflect.DeepEqual(a.Messages, b.Messages)
}
