package nano

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"seadtrain/dialogue"
)

// Message is one message of a training sequence. Loss marks what is trained: only ever assistant messages.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Loss    bool   `json:"loss"`
}

// Sequence is one role's view of a dialogue, one line of the corpus.
type Sequence struct {
	Messages []Message `json:"messages"`
}

// The corpus agents. They must be good enough that every remedy occurs and bad enough that there is much to learn.
const (
	shareRandom = .12 // dialogues of a random agent: they train the user only
	shareOracle = .12 // dialogues of the oracle: they train the user only
	garbledRate = .03 // turns of any agent that are garbled: they train the user only
	randomActs  = .06 // of the ordinary agent's acts
)

// skill is how often the ordinary agent reacts rightly, by situation. Some answers it knows well, some it seldom hits
// on: a greedy model then still fails often, yet sampling finds every answer.
func skill(b Belief) float64 {
	switch b.Worry {
	case Story, Size, Rival, Robot:
		return .15
	}
	return .60
}

// CorpusPolicy is the ordinary agent of the corpus: what a model trained on it samples from.
func CorpusPolicy() Policy { return Mixture(Reactive, skill, randomActs) }

// Corpus writes the training sequences of n dialogues, spread over the languages, one JSON object a line.
func Corpus(w io.Writer, languages []*Rules, seed uint64, n int) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := range n {
		r := languages[i%len(languages)]
		sequences, err := r.corpusDialogue(newRand(seed, uint64(i)))
		if err != nil {
			return fmt.Errorf("corpus dialogue %d: %w", i, err)
		}
		for _, s := range sequences {
			if err := enc.Encode(s); err != nil {
				return fmt.Errorf("write corpus: %w", err)
			}
		}
	}
	return nil
}

// corpusDialogue plays one dialogue and gives its views: the user's, and the agent's if the agent is worth copying.
func (r *Rules) corpusDialogue(rng *rand.Rand) ([]Sequence, error) {
	p := r.RandomProfile(rng)
	policy, ordinary := CorpusPolicy(), true
	switch x := rng.Float64(); {
	case x < shareRandom:
		policy, ordinary = Random, false
	case x < shareRandom+shareOracle:
		policy, ordinary = Oracle, false
	}
	talk, err := r.play(p, policy, garbledRate, rng)
	if err != nil {
		return nil, err
	}
	views := []Sequence{r.userView(p, talk)}
	if ordinary {
		views = append(views, r.agentView(talk))
	}
	return views, nil
}

func (r *Rules) userView(p dialogue.Profile, talk []Exchange) Sequence {
	shared, own := dialogue.UserPrompt(r.Scenario, p)
	m := []Message{{"system", shared + own, false}}
	for _, x := range talk {
		m = append(m, Message{"user", x.Says, false}, Message{"assistant", x.User, true})
	}
	return Sequence{m}
}

func (r *Rules) agentView(talk []Exchange) Sequence {
	m := []Message{{"system", dialogue.AgentPrompt(r.Scenario), false}}
	for i, x := range talk {
		m = append(m, Message{"assistant", x.Agent, !x.Garbled})
		if i < len(talk)-1 {
			m = append(m, Message{"user", x.Reply, false})
		}
	}
	return Sequence{m}
}

// RandomProfile is a profile drawn evenly over the states, with one to three behaviours that go with it.
func (r *Rules) RandomProfile(rng *rand.Rand) dialogue.Profile {
	st := r.Scenario.StateAt(rng.IntN(r.Scenario.States()))
	return r.ProfileAt(st, rng)
}

func (r *Rules) ProfileAt(st dialogue.State, rng *rand.Rand) dialogue.Profile {
	can := r.Scenario.ConsistentBehaviours(st)
	var ids []string
	for _, i := range rng.Perm(len(can))[:1+rng.IntN(3)] {
		ids = append(ids, can[i].ID)
	}
	return r.Scenario.NewProfile(st, ids)
}

// garble spoils an utterance: words shuffled, two utterances spliced, or one cut short. The act is what the ear makes
// of the result.
func (r *Rules) garble(says string, rng *rand.Rand) string {
	other := r.Phrases.Say(Greet+Act(rng.IntN(int(Bye-Greet))), rng)
	words, more := r.Phrases.split(says), r.Phrases.split(other)
	switch rng.IntN(4) {
	case 0:
		rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	case 1:
		words = append(words[:len(words)/2:len(words)/2], more[len(more)/2:]...)
	case 2:
		words = words[:1+rng.IntN(max(1, len(words)/2))]
	default:
		words = append(words[:len(words):len(words)], more...)
		rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		words = words[:min(len(words), 3+rng.IntN(12))]
	}
	return strings.Join(words, r.Phrases.Join)
}

// split cuts an utterance into the pieces that Join would put together: words, or in Chinese characters.
func (p *Phrases) split(text string) []string {
	if p.Join == "" {
		return strings.Split(text, "")
	}
	return strings.Fields(text)
}
