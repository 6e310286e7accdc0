package dialogue

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Problem is one thing wrong with a scenario. Path names the place as the file spells it, "behaviours[3].contradicts",
// so that a loader can add the line.
type Problem struct{ Path, Text string }

func (p Problem) String() string { return p.Path + ": " + p.Text }

// MaxStates bounds the grid of initial states; statistics are kept per state.
const MaxStates = 1 << 16

var (
	namePattern = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	idPattern   = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)
	placeholder = regexp.MustCompile(`\{[a-z_.:]*\}`)
)

// checker collects problems.
type checker struct{ problems []Problem }

func (c *checker) add(path, format string, args ...any) {
	c.problems = append(c.problems, Problem{path, fmt.Sprintf(format, args...)})
}

// Validate lists everything wrong with a scenario at once, nothing if it is sound.
func (s *Scenario) Validate() []Problem {
	c := &checker{}
	if !namePattern.MatchString(s.Name) {
		c.add("name", "%q: want lower-case letters, digits and _", s.Name)
	}
	if !namePattern.MatchString(s.Language) {
		c.add("language", "%q: want a language code such as \"en\" or \"zh\"", s.Language)
	}
	if s.MaxTurns < 1 {
		c.add("max_turns", "%d: want at least 1", s.MaxTurns)
	}
	s.checkDimensions(c)
	s.checkStages(c)
	s.checkBehaviours(c)
	s.checkPrompts(c)
	s.checkProtocol(c, "agent.protocol", &s.Agent.Protocol, Agent)
	s.checkProtocol(c, "user.protocol", &s.User.Protocol, User)
	return c.problems
}

func (s *Scenario) checkDimensions(c *checker) {
	if len(s.Dimensions) == 0 {
		c.add("dimensions", "missing: a scenario has at least one dimension of the user's state")
	}
	states := 1
	for i, d := range s.Dimensions {
		path := fmt.Sprintf("dimensions[%d]", i)
		if !namePattern.MatchString(d.Name) {
			c.add(path+".name", "%q: want lower-case letters, digits and _", d.Name)
		}
		if j := s.DimensionIndex(d.Name); j < i {
			c.add(path+".name", "%q is already dimensions[%d]", d.Name, j)
		}
		if d.Levels < 2 {
			c.add(path+".levels", "%d: want at least 2", d.Levels)
		}
		if len(d.Labels) != 0 && len(d.Labels) != d.Levels {
			c.add(path+".labels", "%d labels for %d levels: want one per level, or none", len(d.Labels), d.Levels)
		}
		if states *= max(d.Levels, 1); states > MaxStates {
			c.add(path+".levels", "the grid has more than %d states", MaxStates)
			return
		}
	}
}

func (s *Scenario) checkStages(c *checker) {
	if len(s.Stages) == 0 {
		c.add("stages", "missing: a scenario has at least one stage")
	}
	for i, st := range s.Stages {
		path := fmt.Sprintf("stages[%d]", i)
		if st.ID != i {
			c.add(path+".id", "%d: stages count from 0 without gaps, so %d", st.ID, i)
		}
		if st.Name == "" {
			c.add(path+".name", "missing")
		}
		if st.Goal == "" {
			c.add(path+".goal", "missing: what the agent wants to reach in this stage")
		}
	}
}

func (s *Scenario) checkBehaviours(c *checker) {
	if len(s.Behaviours) == 0 {
		c.add("behaviours", "missing: a scenario has at least one behaviour")
	}
	sound := len(c.problems)
	first := map[string]int{}
	for i, b := range s.Behaviours {
		path := fmt.Sprintf("behaviours[%d]", i)
		if !idPattern.MatchString(b.ID) {
			c.add(path+".id", "%q: want lower-case words joined by . and -, such as \"cost.hidden-fees\"", b.ID)
		}
		if j, seen := first[b.ID]; seen {
			c.add(path+".id", "%q is already behaviours[%d]", b.ID, j)
		} else {
			first[b.ID] = i
		}
		if b.Category == "" {
			c.add(path+".category", "missing")
		}
		if b.Text == "" {
			c.add(path+".text", "missing: how the role prompt states %q", b.ID)
		}
		s.checkContradicts(c, path+".contradicts", b.Contradicts)
	}
	if len(c.problems) > sound || len(s.Behaviours) == 0 {
		return
	}
	for i := range s.States() {
		if st := s.StateAt(i); len(s.ConsistentBehaviours(st)) == 0 {
			c.add("behaviours", "every one contradicts state %s: want at least one that can go with it", st)
		}
	}
}

func (s *Scenario) checkContradicts(c *checker, path string, contradicts map[string][]int) {
	for _, name := range sortedKeys(contradicts) {
		levels, at := contradicts[name], path+"."+name
		i := s.DimensionIndex(name)
		if i < 0 {
			c.add(at, "no dimension of that name; there are %s", strings.Join(s.dimensionNames(), ", "))
			continue
		}
		seen := map[int]bool{}
		for _, n := range levels {
			if n < 0 || n >= s.Dimensions[i].Levels {
				c.add(at, "level %d: want 0..%d", n, s.Dimensions[i].Levels-1)
			}
			if seen[n] {
				c.add(at, "level %d twice", n)
			}
			seen[n] = true
		}
		if len(levels) == 0 {
			c.add(at, "no levels: name some, or leave the dimension out")
		} else if len(seen) >= s.Dimensions[i].Levels {
			c.add(at, "every level: the behaviour could never be used")
		}
	}
}

func (s *Scenario) checkPrompts(c *checker) {
	if strings.TrimSpace(s.Agent.Prompt) == "" {
		c.add("agent.prompt", "missing")
	}
	if s.Agent.ProfileText != "" {
		c.add("agent.profile_text", "the agent never sees the profile: leave it out")
	}
	user := strings.TrimSpace(s.User.Prompt)
	if !strings.HasSuffix(user, profileMark) || strings.Count(user, profileMark) != 1 {
		c.add("user.prompt", "want %s once, at the very end, so that all dialogues share what stands before it", profileMark)
	}
	if strings.Contains(s.Agent.Prompt, profileMark) {
		c.add("agent.prompt", "%s belongs to the user's prompt only", profileMark)
	}
	known := map[string]bool{"{behaviours}": true, "{state}": true}
	var levels int
	for _, d := range s.Dimensions {
		known["{"+d.Name+"}"] = true
		known["{"+d.Name+".label}"] = len(d.Labels) > 0
		if strings.Contains(s.User.ProfileText, "{"+d.Name+"}") || strings.Contains(s.User.ProfileText, "{"+d.Name+".label}") {
			levels++
		}
	}
	if strings.Count(s.User.ProfileText, "{behaviours}") != 1 {
		c.add("user.profile_text", "want {behaviours} once")
	}
	if !strings.Contains(s.User.ProfileText, "{state}") && levels < len(s.Dimensions) {
		c.add("user.profile_text", "want {state}, or every dimension by name: {%s}", strings.Join(s.dimensionNames(), "} {"))
	}
	for _, p := range placeholder.FindAllString(s.User.ProfileText, -1) {
		if !known[p] {
			c.add("user.profile_text", "nothing fills in %s", p)
		}
	}
}

func (s *Scenario) dimensionNames() []string {
	names := make([]string, len(s.Dimensions))
	for i, d := range s.Dimensions {
		names[i] = d.Name
	}
	return names
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
