package nano

import (
	"strings"
	"unicode"
)

// reader assigns text to one of n classes by its bigrams: the share of a text's neighbouring units (words, single
// Chinese characters, punctuation) that the class's own phrases contain. It needs no training and forgives small
// deviations, and what no class explains well enough is nothing.
type reader struct {
	exact   map[string]int // the phrases themselves, which most text is
	bigrams []map[[2]string]bool
	longest int // units in the longest phrase
}

// explained is the share of bigrams that the best class must contain.
const explained = .75

func newReader(classes [][]string) reader {
	r := reader{exact: map[string]int{}, bigrams: make([]map[[2]string]bool, len(classes))}
	for i, templates := range classes {
		r.bigrams[i] = map[[2]string]bool{}
		for _, t := range templates {
			for _, text := range expand(t) {
				r.exact[text] = i
				pairs := bigrams(text)
				r.longest = max(r.longest, len(pairs))
				for _, b := range pairs {
					r.bigrams[i][b] = true
				}
			}
		}
	}
	return r
}

// class is the class that explains the text best, -1 if none does or two do equally well.
func (r *reader) class(text string) int {
	if i, ok := r.exact[text]; ok {
		return i
	}
	return r.resemble(text)
}

// resemble is class without the short cut.
func (r *reader) resemble(text string) int {
	pairs := bigrams(text)
	if len(pairs) < 3 || len(pairs) > r.longest*5/4 { // nothing between start and end, or several utterances in one
		return -1
	}
	best, most, tied := -1, 0, false
	for i, known := range r.bigrams {
		n := 0
		for _, b := range pairs {
			if known[b] {
				n++
			}
		}
		if n > most {
			best, most, tied = i, n, false
		} else if n == most {
			tied = true
		}
	}
	if tied || float64(most) < explained*float64(len(pairs)) {
		return -1
	}
	return best
}

// bigrams are the neighbouring units of a text, its start and end included.
func bigrams(text string) [][2]string {
	pairs := make([][2]string, 0, 16)
	last := "^"
	for _, u := range units(text) {
		pairs = append(pairs, [2]string{last, u})
		last = u
	}
	return append(pairs, [2]string{last, "$"})
}

// units cuts a text into lower-case words of letters or digits, single ideographs and single marks.
func units(text string) []string {
	var all []string
	word := strings.Builder{}
	flush := func() {
		if word.Len() > 0 {
			all = append(all, word.String())
			word.Reset()
		}
	}
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			flush()
		case unicode.Is(unicode.Han, r):
			flush()
			all = append(all, string(r))
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '\'':
			word.WriteRune(unicode.ToLower(r))
		default:
			flush()
			all = append(all, string(r))
		}
	}
	flush()
	return all
}

// sentences cuts a reply behind every full stop, question and exclamation mark.
func sentences(text string) []string {
	var all []string
	start := 0
	for i, r := range text {
		if strings.ContainsRune(".?!。？！", r) {
			end := i + len(string(r))
			all = append(all, strings.TrimSpace(text[start:end]))
			start = end
		}
	}
	if rest := strings.TrimSpace(text[start:]); rest != "" {
		all = append(all, rest)
	}
	return all
}
