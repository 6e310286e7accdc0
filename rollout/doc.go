// Package rollout makes dialogues: tokens in, tokens out.
//
// # Engine
//
// Engine knows tokens only. A Sequence names its weights, sampling, random stream and limit; it keeps its keys and values
// in the paged cache of its weights for as long as it lives. Tokens are only ever appended: given ones by Append, sampled
// and forced ones by Generate under a Constraint. Step runs one packed forward per weights: decode rows first, then as
// many prefill rows as fit. Which rows run is a function of token counts alone, never of time.
//
// How many dialogues run at once is planned from the memory; the others wait for a place, in their order.
// A sequence is admitted when the blocks of its whole limit can be promised, so a started dialogue never waits for memory;
// they are taken one by one as it grows and are given back at once when it closes. A common prompt is computed once
// (Engine.Prefix): its full blocks are shared by count, its last, half-full one is copied by whoever goes on from it. Of a prompt that a group of sequences has in common
// (SequenceOptions.Prompt) the first one computes the full blocks and lends them to the others.
//
// # Policy
//
// π(token) = softmax(logits / T) over the allowed set at its position; the trace holds T and the id of the set of every
// token (set 0: the whole vocabulary), so that the trainer computes the same. Top-p, top-k and min-p only limit what is
// drawn; the mass they keep is counted. A token that is the only one allowed is appended, not sampled, and not in the loss.
//
// # Batch invariance
//
// Rows of an fp32 product on the CPU go through a kernel of ours in which they do not depend on each other, and so do all
// kernels around it: a dialogue's tokens and log-probs are the same, bit for bit, whatever runs beside it.
// Config.BatchInvariant insists on it: a probe makes sure at start, and other devices and types are refused.
//
// # Driver
//
// Roller plays dialogues of two roles on an engine: the agent speaks first, only the reply field crosses, the referee of
// package dialogue decides how it goes on. The user is the frozen model, or a dialogue.UserSource.
//
// Between two runs a Roller keeps nothing but prompts in its cache: all randomness derives from a dialogue's id and the
// request's seed, so there is no state to save, and a run that was cut short is simply asked for again.
package rollout
