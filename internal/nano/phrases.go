package nano

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Phrases is what the world says in one language. An entry is a template: {a|b} stands for one of its alternatives,
// which may be empty. A reply is a row of sentences, each from one list, so that each can be read back on its own.
type Phrases struct {
	Language string
	Join     string             // between two sentences: " " or nothing
	Acts     [acts][]string     // the agent's utterances; Nonsense has none
	Outcomes [outcomes][]string // the user's answer; Done has none, see Steps
	Steps    [3][]string        // Done, for AskApp, AskBanner, AskClaim
	Worries  [worries][]string  // the worry spoken; NoWorry has none
	Tones    [levelsE][]string  // emotion, in front of an answer; the calm say nothing
	HintC    [3][]string        // cooperation low (0, 1), middle (2), high (3, 4), behind an answer
	HintT    [3][]string        // trust low (0, 1), middle (2, 3), high (4, 5)
}

// ForLanguage gives the phrases of a language the nano world speaks.
func ForLanguage(language string) (*Phrases, error) {
	switch language {
	case "en":
		return &english, nil
	case "zh":
		return &chinese, nil
	}
	return nil, fmt.Errorf("the nano world does not speak %q: it speaks en and zh", language)
}

// expand lists everything a template can say.
func expand(template string) []string {
	open := strings.IndexByte(template, '{')
	if open < 0 {
		return []string{template}
	}
	length := strings.IndexByte(template[open:], '}')
	var all []string
	for _, tail := range expand(template[open+length+1:]) {
		for _, choice := range strings.Split(template[open+1:open+length], "|") {
			all = append(all, template[:open]+choice+tail)
		}
	}
	return all
}

// pick says one of the templates at random. Each template is equally likely, and each alternative within it.
func pick(templates []string, rng *rand.Rand) string {
	if len(templates) == 0 {
		return ""
	}
	t := templates[rng.IntN(len(templates))]
	for {
		open := strings.IndexByte(t, '{')
		if open < 0 {
			return t
		}
		end := open + strings.IndexByte(t[open:], '}')
		choices := strings.Split(t[open+1:end], "|")
		t = t[:open] + choices[rng.IntN(len(choices))] + t[end+1:]
	}
}

// Say performs an act in words.
func (p *Phrases) Say(a Act, rng *rand.Rand) string { return pick(p.Acts[a], rng) }

// bandC and bandT say which hint a level deserves.
func bandC(c int) int { return [levelsC]int{0, 0, 1, 2, 2}[c] }
func bandT(t int) int { return [levelsT]int{0, 0, 1, 1, 2, 2}[t] }

// hintRate is the chance of a hint about cooperation, and of one about trust, behind an answer that voices no worry.
const hintRate = .3

// Answer is what the user says at the end of a turn. It shows the emotion by its tone, what became of the act, the
// worry if there is one, and now and then how far cooperation or trust reach.
func (p *Phrases) Answer(t Turn, rng *rand.Rand) string {
	u := t.After
	sentences := []string{pick(p.Tones[u.E], rng)}
	add := func(templates []string) { sentences = append(sentences, pick(templates, rng)) }
	switch {
	case t.Status == refused && t.Outcome != Farewell:
		add(p.Outcomes[HangUp])
		return p.join(sentences)
	case t.Outcome == Done:
		add(p.Steps[t.Act-AskApp])
	default:
		add(p.Outcomes[t.Outcome])
	}
	switch {
	case u.Worry != NoWorry:
		add(p.Worries[u.Worry])
	case t.Status == goesOn:
		switch hint := rng.Float64(); {
		case hint < hintRate:
			add(p.HintC[bandC(u.C)])
		case hint < 2*hintRate:
			add(p.HintT[bandT(u.T)])
		}
	}
	return p.join(sentences)
}

func (p *Phrases) join(sentences []string) string {
	said := sentences[:0]
	for _, s := range sentences {
		if s != "" {
			said = append(said, s)
		}
	}
	return strings.Join(said, p.Join)
}
