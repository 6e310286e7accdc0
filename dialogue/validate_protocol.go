package dialogue

import (
	"fmt"
	"strings"
)

// checkProtocol: the fields are sound one by one, meanings are unique, and what the program needs is there: for both
// sides a reply and a status, for the user the state in every dimension (the agent may do without estimates).
func (s *Scenario) checkProtocol(c *checker, path string, p *Protocol, role Role) {
	if strings.Trim(p.Separator, space) != "" {
		c.add(path+".separator", "%q: want white space only", p.Separator)
	}
	tags, means := map[string]int{}, map[string]int{}
	for i := range p.Fields {
		f, at := &p.Fields[i], fmt.Sprintf("%s.fields[%d]", path, i)
		if !isTag(f.Tag) {
			c.add(at+".tag", "%q: want letters, digits and _, without < and >", f.Tag)
		}
		if j, seen := tags[f.Tag]; seen {
			c.add(at+".tag", "%q is already fields[%d]", f.Tag, j)
		}
		tags[f.Tag] = i
		if j, seen := means[f.Means]; seen && f.Means != MeansPrivate {
			c.add(at+".means", "%q is already what fields[%d] means", f.Means, j)
		}
		means[f.Means] = i
		s.checkField(c, at, f)
	}
	need := []string{MeansReply, MeansStatus}
	if role == User {
		for _, d := range s.Dimensions {
			need = append(need, MeansState+d.Name)
		}
	}
	for _, m := range need {
		if _, ok := means[m]; !ok {
			c.add(path+".fields", "no field means %q", m)
		}
	}
}

// checkField: kind, bounds and meaning go together.
func (s *Scenario) checkField(c *checker, at string, f *Field) {
	low, high := 0, -1 // what the numbers must span; high -1: free
	wantText := false
	switch dim, isState := strings.CutPrefix(f.Means, MeansState); {
	case isState:
		i := s.DimensionIndex(dim)
		if i < 0 {
			c.add(at+".means", "%q: no dimension of that name; there are %s", f.Means, strings.Join(s.dimensionNames(), ", "))
			return
		}
		high = s.Dimensions[i].Levels - 1
	case f.Means == MeansReply || f.Means == MeansPrivate:
		wantText = f.Means == MeansReply
	case f.Means == MeansStage:
		high = len(s.Stages) - 1
	case f.Means == MeansStatus:
		low, high = StatusFailed, StatusSuccess
	case f.Means != MeansNoise:
		c.add(at+".means", "%q: want reply, private, state:<dimension>, noise, stage or status", f.Means)
		return
	}
	switch f.Kind {
	case Text:
		if f.Means != MeansReply && f.Means != MeansPrivate {
			c.add(at+".kind", "%s is a number: want int or enum, not text", f.Means)
		}
	case Int:
		if f.Min > f.Max {
			c.add(at+".max", "%d is below min, which is %d", f.Max, f.Min)
		} else if high >= 0 && (f.Min != low || f.Max != high) {
			c.add(at+".max", "%s runs from %d to %d, the field from %d to %d", f.Means, low, high, f.Min, f.Max)
		}
	case Enum:
		checkWords(c, at+".values", f, high-low+1, high >= 0)
	default:
		c.add(at+".kind", "%q: want text, int or enum", f.Kind)
	}
	if wantText && f.Kind != Text {
		c.add(at+".kind", "a reply is text, not %s", f.Kind)
	}
	if f.Kind != Text && f.MaxTokens != 0 {
		c.add(at+".max_tokens", "only a text has a token limit")
	}
	if f.MaxTokens < 0 {
		c.add(at+".max_tokens", "%d: want 0 (no limit of its own) or more", f.MaxTokens)
	}
	if f.Kind != Enum && len(f.Values) > 0 {
		c.add(at+".values", "only an enum has values")
	}
	if f.Kind != Int && (f.Min != 0 || f.Max != 0) {
		c.add(at+".min", "only an int has bounds")
	}
}

// checkWords: an enum's words are distinct, can be written in a tag, and are as many as the numbers they stand for.
func checkWords(c *checker, at string, f *Field, want int, fixed bool) {
	if fixed && len(f.Values) != want {
		c.add(at, "%d words: %s has %d values, low to high", len(f.Values), f.Means, want)
	} else if len(f.Values) == 0 {
		c.add(at, "missing")
	}
	seen := map[string]bool{}
	for _, w := range f.Values {
		if w == "" || strings.Trim(w, space) != w || strings.Contains(w, "<") || Clean(w) != w {
			c.add(at, "%q: want a word without < and without white space at its ends", w)
		}
		if seen[w] {
			c.add(at, "%q twice", w)
		}
		seen[w] = true
	}
}
