package dialogue

import (
	"strconv"
	"strings"
)

// profileMark ends every user prompt; the profile's own text takes its place.
const profileMark = "{profile}"

// AgentPrompt is the agent's system prompt, the same in every dialogue.
func AgentPrompt(s *Scenario) string { return strings.TrimSpace(s.Agent.Prompt) }

// UserPrompt is the user's system prompt in two parts: shared is the same in every dialogue (its tokens and cache are
// computed once), own is the profile. The whole prompt is shared + own. A profile that has neither state nor
// behaviours has an empty own part. The profile must have passed CheckProfile: unknown behaviours are left out.
func UserPrompt(s *Scenario, p Profile) (shared, own string) {
	shared = strings.TrimSuffix(strings.TrimSpace(s.User.Prompt), profileMark)
	if p.State == nil && len(p.Behaviours) == 0 {
		return shared, ""
	}
	return shared, strings.NewReplacer(s.profileValues(p)...).Replace(strings.TrimSpace(s.User.ProfileText))
}

// profileValues are placeholder, text, placeholder, text, … of the profile's template.
func (s *Scenario) profileValues(p Profile) []string {
	var texts, state []string
	for _, id := range p.Behaviours {
		if b := s.Behaviour(id); b != nil {
			texts = append(texts, b.Text)
		}
	}
	join := s.User.Join
	if join == "" {
		join = ", "
	}
	values := []string{"{behaviours}", strings.Join(texts, join)}
	for i, d := range s.Dimensions {
		level, label := strconv.Itoa(p.State[i]), ""
		words := d.Name + " " + level
		if len(d.Labels) > 0 {
			label = d.Labels[p.State[i]]
			words += " (" + label + ")"
		}
		values = append(values, "{"+d.Name+"}", level, "{"+d.Name+".label}", label)
		state = append(state, words)
	}
	return append(values, "{state}", strings.Join(state, ", "))
}
