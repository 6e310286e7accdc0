// Package bench measures the generation engine: against what the machine can do at best, measured on the spot, and
// against other programs on the same model, prompts, lengths, threads and precision, both sides by turns in one run.
//
// Both kinds of contestant are a Side: this program's engine (engine.go), and a Python server beside it that talks JSON
// lines (peer.go, peers/*.py). A row (report.go) is one line of the table; its ratio is above 1 where this program is
// faster. Suites (run.go) say which rows belong together, and what share of the time each may take.
package bench
