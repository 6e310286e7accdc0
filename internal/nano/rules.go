package nano

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"seadtrain/dialogue"
)

// Rules is the nano world in one language: the user that follows the true dynamics (a dialogue.UserSource), the judge
// of a role-play model, and the ground that scripted agents and the corpus stand on. It is safe for concurrent use.
type Rules struct {
	Scenario *dialogue.Scenario
	Phrases  *Phrases
	Ear      *Ear
}

// NewRules binds the world to a scenario file, which must have the dimensions and behaviours that the world knows.
func NewRules(s *dialogue.Scenario) (*Rules, error) {
	var errs []error
	want := []dialogue.Dimension{{Name: "cooperation", Levels: levelsC}, {Name: "emotion", Levels: levelsE}, {Name: "trust", Levels: levelsT}}
	if len(s.Dimensions) != len(want) {
		errs = append(errs, fmt.Errorf("dimensions: %d, the nano world has cooperation, emotion and trust", len(s.Dimensions)))
	} else {
		for i, d := range s.Dimensions {
			if d.Name != want[i].Name || d.Levels != want[i].Levels {
				errs = append(errs, fmt.Errorf("dimensions[%d]: %s with %d levels, the nano world has %s with %d", i, d.Name, d.Levels, want[i].Name, want[i].Levels))
			}
		}
	}
	for i, b := range s.Behaviours {
		if _, err := WorryOf(b.ID); err != nil {
			errs = append(errs, fmt.Errorf("behaviours[%d].id: %w", i, err))
		}
	}
	phrases, err := ForLanguage(s.Language)
	if err != nil {
		errs = append(errs, fmt.Errorf("language: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("scenario %s/%s: %w", s.Name, s.Language, err)
	}
	return &Rules{Scenario: s, Phrases: phrases, Ear: NewEar(phrases)}, nil
}

// Open starts a user that follows the rules.
func (r *Rules) Open(p dialogue.Profile, seed uint64) (dialogue.UserSession, error) {
	return r.open(p, newRand(seed, 1))
}

func (r *Rules) open(p dialogue.Profile, rng *rand.Rand) (*session, error) {
	u, set, err := r.start(p)
	if err != nil {
		return nil, err
	}
	return &session{r, u, set, rng}, nil
}

// start is the world's state at the beginning of a profile's call.
func (r *Rules) start(p dialogue.Profile) (User, traitSet, error) {
	if err := r.Scenario.CheckProfile(p); err != nil {
		return User{}, nil, err
	}
	if p.State == nil {
		return User{}, nil, fmt.Errorf("profile %s: has no state, and the rules start from one", p.ID)
	}
	var set traitSet
	for _, id := range p.Behaviours {
		w, err := WorryOf(id)
		if err != nil {
			return User{}, nil, fmt.Errorf("profile %s: %w", p.ID, err)
		}
		set = append(set, w)
	}
	return User{C: p.State[0], E: p.State[1], T: p.State[2]}, set, nil
}

// session is one user in one call.
type session struct {
	rules *Rules
	user  User
	set   traitSet
	rng   *rand.Rand
}

// Reply hears what the agent says and answers with a tagged message.
func (s *session) Reply(ctx context.Context, agentSays string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	_, tagged, _ := s.hear(agentSays)
	return tagged, nil
}

// hear moves the world one turn on and words the answer, whole and as the agent hears it.
func (s *session) hear(agentSays string) (t Turn, tagged, reply string) {
	t = Step(s.user, s.set, s.rules.Ear.Act(agentSays), s.rng)
	s.user = t.After
	reply = s.rules.Phrases.Answer(t, s.rng)
	return t, s.rules.userMessage(t, reply), reply
}

// userMessage writes a turn in the scenario's user protocol.
func (r *Rules) userMessage(t Turn, reply string) string {
	return render(&r.Scenario.User.Protocol, map[string]string{
		dialogue.MeansPrivate:               Thought{t.Act, t.Outcome, t.After}.String(),
		dialogue.MeansReply:                 reply,
		dialogue.MeansState + "cooperation": strconv.Itoa(t.After.C),
		dialogue.MeansState + "emotion":     strconv.Itoa(t.After.E),
		dialogue.MeansState + "trust":       strconv.Itoa(t.After.T),
		dialogue.MeansStatus:                strconv.Itoa(t.Status),
	})
}

// agentMessage writes an agent's turn in the scenario's agent protocol.
func (r *Rules) agentMessage(says string, a Act, b Belief) string {
	return render(&r.Scenario.Agent.Protocol, map[string]string{
		dialogue.MeansReply:                 says,
		dialogue.MeansState + "cooperation": strconv.Itoa(b.C),
		dialogue.MeansState + "emotion":     strconv.Itoa(b.E),
		dialogue.MeansState + "trust":       strconv.Itoa(b.T),
		dialogue.MeansStage:                 strconv.Itoa(stageOf(b.Progress)),
		dialogue.MeansStatus:                strconv.Itoa(claim(a)),
	})
}

// render writes a message from values by meaning instead of by tag.
func render(p *dialogue.Protocol, byMeaning map[string]string) string {
	values := make(map[string]string, len(byMeaning))
	for means, value := range byMeaning {
		if f := p.ByMeaning(means); f != nil {
			values[f.Tag] = value
		}
	}
	return p.Render(values)
}

// stageOf is the step of the operating procedure that a progress belongs to.
func stageOf(p Progress) int { return [progresses]int{0, 1, 2, 2, 2, 3}[p] }

// claim is the status that an agent reports with an act: who asks for the result claims success, too early or not.
func claim(a Act) int {
	switch a {
	case Check:
		return dialogue.StatusSuccess
	case Bye:
		return dialogue.StatusFailed
	}
	return dialogue.StatusGoOn
}

// newRand is a random stream of its own for each purpose of a seed.
func newRand(seed, purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, purpose)) }
