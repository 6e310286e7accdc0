// Package curriculum is the Profile Controller: it chooses the initial conditions of the users the agent is trained on,
// and nothing else. It is statistics, not a network: pure, seeded, no I/O, no clock.
//
// One RL step is
//
//	profiles, _ := c.Sample(cfg.Profiles)    // B users; one group of dialogues each
//	_ = c.Observe(outcomes)                  // what became of every dialogue
//	c.EndStep()                              // every Period steps: error analysis → new weights
//
// # The weights
//
// Every state s of the grid has a prior share π_s (uniform over the grid, or the narrower published support) and an
// estimate p_s of the present agent's completion rate. Until the first update q = π: the first iteration is random.
// Then
//
//		q_s = (1−f) · π_s W(band_s) exp(−λ(p_s − aim)) / Z  +  f · π_s
//
//	  - band_s is too hard (p_s < Low), ideal, too easy (p_s > High), or unjudged while its evidence is below MinCount;
//	    W are the four numbers of Config.Weights.
//	  - f is Config.Floor: a state of the support never has less than f · π_s.
//	  - λ is the one number, |λ| ≤ MaxTilt, that makes the expected completion Σ q_s p_s equal to aim. The bands alone
//	    cannot do that: once most states are too easy, their many small weights outweigh the frontier and completion
//	    drifts up with the agent. Among all weights that meet the aim, these are the closest to the bands' (smallest
//	    Kullback–Leibler divergence).
//	  - aim is Config.Target minus a correction that integrates what the last periods missed it by. The agent learns
//	    between update and use, so yesterday's estimate is always a little low; this takes the lag out.
//
// # The estimate
//
// n_s and k_s are dialogues and successes that fade by Config.Decay per step, because an agent that learns makes old
// dialogues wrong. Faded evidence is thin (a state may see one profile per period), so the rest of the grid helps: g_s
// is a logistic fit to all states with one effect per level of each dimension, m = Config.Smoothing pseudo-dialogues,
//
//	p_s = (k_s + m g_s) / (n_s + m)
//
// # Profiles
//
// A profile is a state plus MinBehaviours..MaxBehaviours behaviours that do not contradict it, out of the state's pool
// of at most Config.Pool combinations, which the seed fixes for the whole run. About a fifth of all combinations is in
// no pool of any seed: HeldOut draws the evaluation profiles from those.
package curriculum
