package nano

import "math/rand/v2"

// Agent is a scripted agent in one call. It works on text as a model does: it hears replies and writes tagged
// messages.
type Agent struct {
	rules  *Rules
	policy Policy
	belief Belief
	act    Act
	rng    *rand.Rand
}

// NewAgent starts an agent.
func (r *Rules) NewAgent(p Policy, rng *rand.Rand) *Agent {
	return &Agent{rules: r, policy: p, belief: firstBelief(), rng: rng}
}

// Say is the next turn: the whole message, and the part that the user hears. The scores in it are the agent's belief
// before the turn.
func (g *Agent) Say() (tagged, says string) {
	g.act = draw(g.policy(g.belief), g.rng)
	says = g.rules.Phrases.Say(g.act, g.rng)
	return g.rules.agentMessage(says, g.act, g.belief), says
}

// Hear takes in the user's reply.
func (g *Agent) Hear(reply string) { g.belief = g.belief.hear(g.act, g.rules.Ear.Reply(reply)) }
