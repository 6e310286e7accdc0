// Package loop wires the stages of SEAD into a run: sample profiles, roll out, train, analyse, and back to the sampler. It
// is the only package that sees them all.
//
// Everything random is derived from the config's seed, the step and a purpose, so a run that goes on from a checkpoint
// needs no more than the optimizer's state, the curriculum's state and the step. N steps, a stop and N more steps are 2N
// steps, bit for bit (same binary, kind of processor, threads and dtype).
//
// What a stop does: during a rollout it abandons the dialogues, which the resumed run plays again; an update that has
// begun is finished. Then a checkpoint of the last complete step is written.
package loop
