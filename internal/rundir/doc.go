// Package rundir is a run's directory: who holds it, what is in it, and how it survives a crash.
//
//	config.toml                 the resolved config, written when the run begins; a resumed run must have the same
//	metrics.jsonl               one line per step
//	episodes/step-N.jsonl       dialogues of a step
//	profiles/step-N.jsonl       users of a step
//	eval/                       dialogues and reports of the held-out evaluations
//	checkpoints/step-N/         a plain Hugging Face directory, trainer/ with what a resumed run needs, manifest.json
//	lock                        process and host that hold the directory
//
// A checkpoint is written under a temporary name, every file is flushed to disk, the manifest with every file's SHA-256
// comes last, then the directory is renamed and its parent flushed: at any moment, also after a power cut or on a full
// disk, the newest complete checkpoint is whole. Latest believes no name, only a manifest that verifies.
package rundir
