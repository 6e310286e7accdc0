package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"seadtrain/dialogue"
	"seadtrain/eval"
	"seadtrain/internal/textgrid"
)

// Summary is what a finished run reports.
type Summary struct {
	Directory  string       `json:"directory"`
	Checkpoint string       `json:"checkpoint"`
	Steps      int          `json:"steps"`
	HeldOut    []Comparison `json:"held_out"`
	// Format in free mode before and after training; only of guided agents.
	Format []Format `json:"format,omitempty"`
}

// Comparison is the held-out evaluation before and after training, against one kind of user.
type Comparison struct {
	User string `json:"user"`
	eval.Comparison
}

func (r *run) summary() (*Summary, error) {
	s := &Summary{Directory: r.dir.Path, Steps: r.done}
	c, _, err := r.dir.Latest()
	if err != nil || c == nil {
		return nil, errors.Join(errors.New("the run's last checkpoint is gone"), err)
	}
	s.Checkpoint = c.Path
	if r.cfg.Eval.Profiles == 0 {
		return s, nil
	}
	for _, user := range r.cfg.Eval.Users {
		before, err := dialogue.ReadEpisodes(r.evalFile(0, user))
		if errors.Is(err, os.ErrNotExist) {
			continue // the file was removed; the run itself is not at fault
		}
		if err != nil {
			return nil, err
		}
		after, err := dialogue.ReadEpisodes(r.evalFile(r.done, user))
		if err != nil {
			return nil, err
		}
		s.HeldOut = append(s.HeldOut, Comparison{user, eval.Compare(r.stage.Scenario, before, after,
			eval.Options{Seed: r.cfg.Eval.Seed, Resamples: r.cfg.Eval.Resamples})})
	}
	for _, step := range []int{0, r.done} {
		var f Format
		if text, err := os.ReadFile(r.formatFile(step)); err != nil {
			continue // a free agent, or the file was removed
		} else if err := json.Unmarshal(text, &f); err != nil {
			return nil, fmt.Errorf("%s: %w", r.formatFile(step), err)
		}
		s.Format = append(s.Format, f)
	}
	return s, nil
}

// String is the summary for a terminal.
func (s *Summary) String() string {
	var b strings.Builder
	if len(s.HeldOut) > 0 {
		fmt.Fprintf(&b, "\nHeld-out completion rate in %%, with 95 %% intervals, before and after %d steps\n\n", s.Steps)
		rows := [][]string{{"user", "before", "after", "change", "dialogues"}}
		for _, c := range s.HeldOut {
			rows = append(rows, []string{c.User, percent(c.Before.Published.CR), percent(c.After.Published.CR),
				percent(c.Change.Published.CR), fmt.Sprint(c.After.Dialogues)})
		}
		b.WriteString(textgrid.Columns(rows, 1))
	}
	if len(s.Format) == 2 {
		fmt.Fprintf(&b, "\nThe agent's form when it writes the tags itself (free mode): %v → %v\n", s.Format[0], s.Format[1])
	}
	fmt.Fprintf(&b, `
run directory  %s
trained model  %s
`, s.Directory, s.Checkpoint)
	return b.String()
}

func percent(i eval.Interval) string {
	if i.Value == nil {
		return "–"
	}
	if i.Low == nil {
		return fmt.Sprintf("%.1f", 100**i.Value)
	}
	return fmt.Sprintf("%.1f (%.1f to %.1f)", 100**i.Value, 100**i.Low, 100**i.High)
}
