package nano

import "strings"

// Thought is the user's private thought: what it took the agent's words for, how it takes that, what occupies it, how
// far the call has come, and how it feels now. It is the user's memory from turn to turn (the reply shows only some of
// it), and a chain of thought: each word follows from the words before it and the thought of the turn before.
//
// It is written in the same seven words in every language, so that a small model learns the dynamics once:
//
//	proof believe none met unwilling calm wary
type Thought struct {
	Act     Act
	Outcome Outcome
	User
}

// The words for the levels. The English scenario states the profile in the same words.
var (
	wordsC = [levelsC]string{"hostile", "unwilling", "lukewarm", "willing", "eager"}
	wordsE = [levelsE]string{"angry", "sullen", "calm", "cheerful"}
	wordsT = [levelsT]string{"fearful", "distrustful", "wary", "neutral", "trusting", "confident"}
)

func (t Thought) String() string {
	return strings.Join([]string{t.Act.String(), t.Outcome.String(), t.Worry.String(), t.Progress.String(),
		wordsC[t.C], wordsE[t.E], wordsT[t.T]}, " ")
}

// ParseThought reads a thought back; false if it is not of the form above.
func ParseThought(text string) (t Thought, ok bool) {
	words := strings.Fields(text)
	if len(words) != 7 {
		return t, false
	}
	ok = true
	word := func(n int, name func(i int) string) int {
		w := words[0]
		words = words[1:]
		for i := range n {
			if name(i) == w {
				return i
			}
		}
		ok = false
		return 0
	}
	t.Act = Act(word(int(acts), func(i int) string { return Act(i).String() }))
	t.Outcome = Outcome(word(int(outcomes), func(i int) string { return Outcome(i).String() }))
	t.Worry = Worry(word(int(worries), func(i int) string { return Worry(i).String() }))
	t.Progress = Progress(word(int(progresses), func(i int) string { return Progress(i).String() }))
	t.C = word(levelsC, func(i int) string { return wordsC[i] })
	t.E = word(levelsE, func(i int) string { return wordsE[i] })
	t.T = word(levelsT, func(i int) string { return wordsT[i] })
	return t, ok
}
