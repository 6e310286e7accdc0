package eval

import (
	"fmt"
	"strings"

	"seadtrain/dialogue"
	"seadtrain/internal/textgrid"
)

// names of the metrics, in their order.
var names = [metrics][2]string{
	{"CR", "completion rate"},
	{"ATT", "turns to target"},
	{"ADT", "dialogue turns"},
	{"UPA", "user-portrait accuracy"},
	{"EI", "emotion improvement"},
	{"TI", "trust improvement"},
	{"CI", "cooperation improvement"},
	{"FPR", "false-positive rate"},
	{"SCR", "stage completeness"},
}

func (a Interval) String() string {
	switch {
	case a.Value == nil:
		return "–"
	case a.Low == nil:
		return fmt.Sprintf("%.3f", *a.Value)
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", *a.Value, *a.Low, *a.High)
}

// Table is the report for a terminal.
func (r *Report) Table() string {
	rows := [][]string{{"metric", "", "published [95 %]", "n", "normalised [95 %]", "n"}}
	pub, norm := r.Published.all(), r.Normalised.all()
	for m, name := range names {
		rows = append(rows, []string{name[0], name[1],
			pub[m].String(), fmt.Sprint(pub[m].N), norm[m].String(), fmt.Sprint(norm[m].N)})
	}
	return textgrid.Columns(rows, 2) + r.counts() + "\n"
}

// counts is one line: how many dialogues, and what was left out.
func (r *Report) counts() string {
	text := fmt.Sprintf("%d dialogues of %d profiles", r.Dialogues, r.Profiles)
	if r.Unknown > 0 {
		text += fmt.Sprintf(", %d of unknown profile", r.Unknown)
	}
	var causes []string
	for _, end := range dialogue.Ends {
		if n := r.Excluded[end]; n > 0 {
			causes = append(causes, fmt.Sprintf("%s %d", end, n))
		}
	}
	if causes != nil {
		text += "; excluded: " + strings.Join(causes, ", ")
	}
	return text
}

// Table is the comparison for a terminal: the published definition, then those normalised metrics that differ from it.
func (c *Comparison) Table() string {
	rows := [][]string{{"metric", "", "before [95 %]", "after [95 %]", "change [95 %]"}}
	for def, change := range []*Metrics{&c.Change.Published, &c.Change.Normalised} {
		old, now := c.Before.definition(def).all(), c.After.definition(def).all()
		for m, d := range change.all() {
			name := names[m][1]
			if def == normalised {
				if m < upa || m > ci {
					continue
				}
				name += ", normalised"
			}
			rows = append(rows, []string{names[m][0], name, old[m].String(), now[m].String(), d.String()})
		}
	}
	return textgrid.Columns(rows, 2) +
		fmt.Sprintf("before: %s\nafter: %s\n%d profiles in both\n", c.Before.counts(), c.After.counts(), c.Paired)
}
