// Package eval turns finished dialogues into metrics with intervals: pure and seeded, no model, no I/O.
//
// # Metrics
//
// A dialogue either has a value of a metric or has none; a metric is the mean over the dialogues that have one, and
// Interval.N is their number. Dialogues that say nothing about the agent (dialogue.End.Excluded) are counted by cause
// and left out.
//
//	cr   completion rate: final status 1, over all
//	att  average turns to target: turns, over the completed
//	adt  average dialogue turns: turns, over all
//	upa  user-portrait accuracy: 1 − the mean error of the agent's estimates of the user's state
//	ei   improvement of emotion, ti of trust, ci of cooperation: last minus first
//	fpr  false-positive rate: final status not 1, over those whose agent claims success (chatbot status 1)
//	scr  stage completeness: every stage below the last one appeared; a dialogue without a stage is not complete
//
// Two definitions stand side by side. They differ in four metrics:
//
//	                     published                                 normalised
//	dimensions           cooperation, emotion, trust               all that both sides' protocols carry
//	upa                  1 − mean of the dimensions' MAE / 4       1 − mean of MAE / (levels − 1)
//	ei, ti, ci           the agent's estimates                     the user's true states
//	numbers              as they are written                       only within the protocol's bounds
//
// In both, MAE compares an agent message with the user message right after it, and a pair in which any number is
// missing is dropped whole; improvements compare the side's first message with its last, and there is none if a number
// is missing in either. Malformed messages are read leniently, as the published evaluation does, under "published"
// only. A scenario without the three published dimensions has no published upa, ei, ti, ci.
//
// # Intervals
//
// 95 %, by percentiles of a bootstrap over clusters: the dialogues of one profile stand and fall together; a dialogue
// whose profile is unknown is its own cluster. A resample in which nobody has a value is left out. Where resampling
// cannot show any spread, because all clusters agree or there is only one, a share gets Wilson's interval for the
// number of clusters. Any other metric has no interval then if there is only one cluster. No data is null, never 0.
package eval
