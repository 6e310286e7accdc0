// Package dialogue holds the types every stage shares: what a scenario is, what a user profile is, what the tag
// protocol looks like, and what a finished dialogue (an episode) records. It is a leaf: standard library only, no
// I/O beyond JSONL, no model, no tokenizer. The stages (curriculum, rollout, train, eval) never import each other;
// what passes between them is declared here.
package dialogue
