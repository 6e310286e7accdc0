// Package dialogue holds what every stage shares: what a scenario is, what a user profile is, what the tag protocol
// looks like, and what a finished dialogue (an episode) records. It is a leaf: standard library only, no I/O beyond
// JSONL, no model, no tokenizer. The stages (curriculum, rollout, train, eval) never import each other; what passes
// between them is declared here.
//
// A dialogue in its order: UserPrompt and AgentPrompt give the role prompts of a Profile; Protocol.Segments is the
// skeleton of a guided message; Scenario.ReadMessage parses what a role wrote, strictly; AgentHears and UserHears are
// all that the other side learns of it; Scenario.Judge says who speaks next or how the dialogue ended; Episode.Finish
// records that, and WriteEpisodes puts it on disk. Episodes and ReadEpisodes read our own and published files alike.
package dialogue
