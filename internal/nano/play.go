package nano

import (
	"math/rand/v2"

	"seadtrain/dialogue"
)

// Exchange is one turn of a played dialogue.
type Exchange struct {
	Turn
	Agent, Says string // the agent's message, and what the user heard of it
	User, Reply string // the user's message, and what the agent heard of it
	Garbled     bool   // the agent's words were spoiled on purpose
}

// Play runs a scripted agent against the rules to the end of the call.
func (r *Rules) Play(p dialogue.Profile, policy Policy, rng *rand.Rand) ([]Exchange, error) {
	return r.play(p, policy, 0, rng)
}

// play, with a share of the agent's turns garbled.
func (r *Rules) play(p dialogue.Profile, policy Policy, garbled float64, rng *rand.Rand) ([]Exchange, error) {
	user, err := r.open(p, rng)
	if err != nil {
		return nil, err
	}
	agent := r.NewAgent(policy, rng)
	var talk []Exchange
	for range r.Scenario.MaxTurns {
		var x Exchange
		x.Agent, x.Says = agent.Say()
		if garbled > 0 && rng.Float64() < garbled {
			x.Says, x.Garbled = r.garble(x.Says, rng), true
			agent.act = r.Ear.Act(x.Says)
			x.Agent = r.agentMessage(x.Says, agent.act, agent.belief)
		}
		x.Turn, x.User, x.Reply = user.hear(x.Says)
		talk = append(talk, x)
		if x.Status != goesOn {
			break
		}
		agent.Hear(x.Reply)
	}
	return talk, nil
}

// Agreed reports whether a played dialogue reached its end with success.
func Agreed(talk []Exchange) bool { return talk[len(talk)-1].Status == agreed }
