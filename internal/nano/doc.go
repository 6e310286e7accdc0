// Package nano is the rule-based world of the nano tier: a user whose mind is a small table, the agents and the corpus
// that a model of half a million parameters learns from, the "rules" as a user to evaluate against, and the judge of
// how truly a role-play model plays its profiles. Pure and seeded; text in, text out.
//
// The user. Cooperation C 0..4, emotion E 0..3 and trust T 0..5 are the hidden state that a profile starts. A worry
// (each behaviour brings one) and the progress of the call are carried in the private thought. One turn:
//
//	act      what the agent's words do (Ear.Act: bigrams of the world's own phrases; else Nonsense)
//	outcome  how the user takes it, a function of state, behaviours and act (respond)
//	state    moved by the outcome's row of one table (effects): no chance in it
//	chance   the user may hang up (hangUp), or a worry may come up (canWorry, worryRate)
//	reply    tone for E, a sentence for the outcome, the worry; else now and then a hint about C or T (Phrases.Answer)
//
// To be brought to the end: greet, offer, three steps on the phone (each needs E ≥ 1, T ≥ 2, C ≥ 3), check. While a
// worry stands only its remedy is heard, everything else costs cooperation. A cold and angry user (C and E at 0) is
// next to hopeless; one who is cheerful, willing and trusting nearly always agrees.
//
// What can be known. A scripted agent decides by a Belief, a function of what it said and heard. Its estimates in the
// corpus are that belief, never the true state: a model cannot learn to see what is not in the text, and trained on
// true values it learns to copy its own last guess.
//
// What is learned. The user's thought is a chain of seven words, each following from the words before: that is what
// makes the dynamics learnable for a model this small. The corpus agent knows the procedure but hits the best act only
// in a part of the turns, so that a model trained on it fails often and yet samples every remedy.
package nano
