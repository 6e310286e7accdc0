package rollout

import (
	"errors"
	"fmt"
	"time"

	"seadtrain/dialogue"
)

// Result of a rollout.
type Result struct {
	// Episodes are ordered by profile, then member. After an error they are those that finished, and, with an excluding
	// end, those that were running.
	Episodes []*dialogue.Episode
	Stats    Stats
}

// Stats sum up a rollout.
type Stats struct {
	Total    int // dialogues asked for
	Ends     map[dialogue.End]int
	Excluded map[string]map[dialogue.End]int // by profile id; profiles without exclusions are absent
	Roles    [2]RoleStats                    // by dialogue.Role
	Forwards int64
	Rows     int64 // tokens through the models, padding included
	Elapsed  time.Duration
}

// RoleStats sum up what one role wrote.
type RoleStats struct {
	Messages int
	Faults   map[dialogue.Fault]int
	Closed   int     // messages with a text closed by force
	Sampled  int     // tokens drawn
	Tokens   int     // of its view: prompts, what it heard, what was forced, what it drew
	Kept     float64 // sum over drawn tokens of the mass that the truncations kept
}

// KeptMass is the mean mass of π that top-p, top-k and min-p kept: 1 where they cut nothing.
func (s RoleStats) KeptMass() float64 {
	if s.Sampled == 0 {
		return 1
	}
	return s.Kept / float64(s.Sampled)
}

// FaultCount is the number of malformed messages.
func (s RoleStats) FaultCount() int {
	n := 0
	for _, k := range s.Faults {
		n += k
	}
	return n
}

// ExcludedCount is the number of excluded dialogues.
func (s Stats) ExcludedCount() int {
	n := 0
	for end, k := range s.Ends {
		if end.Excluded() {
			n += k
		}
	}
	return n
}

// ErrTooManyExcluded is what errors.Is finds in an ExcludedError.
var ErrTooManyExcluded = errors.New("too many dialogues are excluded")

// ExcludedError says that more dialogues than Config.MaxExcluded allows say nothing about the agent. The result that
// comes with it is complete.
type ExcludedError struct {
	Excluded, Total int
	Ends            map[dialogue.End]int // of the excluded ones
	First           string               // the first infrastructure error, if any
}

func (e *ExcludedError) Error() string {
	s := fmt.Sprintf("%d of %d dialogues are excluded", e.Excluded, e.Total)
	for _, end := range dialogue.Ends {
		if n := e.Ends[end]; n > 0 {
			s += fmt.Sprintf(", %d %s", n, end)
		}
	}
	if e.First != "" {
		s += " (" + e.First + ")"
	}
	return s
}

func (e *ExcludedError) Is(target error) bool { return target == ErrTooManyExcluded }

// excluded is the error that a complete result calls for, or nil.
func (r *Result) excluded(allowed float64) error {
	e := &ExcludedError{Excluded: r.Stats.ExcludedCount(), Total: r.Stats.Total, Ends: map[dialogue.End]int{}}
	if float64(e.Excluded) <= allowed*float64(e.Total) {
		return nil
	}
	for end, n := range r.Stats.Ends {
		if end.Excluded() {
			e.Ends[end] = n
		}
	}
	for _, ep := range r.Episodes {
		if ep.Err != "" {
			e.First = ep.Err
			break
		}
	}
	return e
}

// Progress is where a rollout stands.
type Progress struct {
	Done, Running, Total int
	Success, Counted     int     // agreed, and not excluded, of those done
	Tokens               [2]int  // drawn so far, by dialogue.Role
	Cache                float64 // share of the KV cache's blocks in use
	Elapsed              time.Duration
	Left                 time.Duration // by the dialogues done so far; 0: not known yet
}

// Rate is the completion rate so far; false while nothing counts.
func (p Progress) Rate() (float64, bool) {
	if p.Counted == 0 {
		return 0, false
	}
	return float64(p.Success) / float64(p.Counted), true
}

// String is the part of a progress line that says how many are done, how they end, and how long the rest may take.
func (p Progress) String() string {
	s := fmt.Sprintf("%d/%d dialogues", p.Done, p.Total)
	if share, ok := p.Rate(); ok {
		s += fmt.Sprintf("  completion %.0f %%", 100*share)
	}
	if p.Left > 0 {
		s += fmt.Sprintf("  ~%s left", p.Left.Round(time.Second))
	}
	return s
}

// Detail is what a wide line says besides: how many run, how fast both roles draw tokens, how full the cache is.
func (p Progress) Detail() string {
	seconds := max(p.Elapsed.Seconds(), 1e-3)
	return fmt.Sprintf("%d run  agent %.0f + user %.0f tokens/s  cache %.0f %%", p.Running, float64(p.Tokens[0])/seconds, float64(p.Tokens[1])/seconds, 100*p.Cache)
}

func newStats(total int) Stats {
	s := Stats{Total: total, Ends: map[dialogue.End]int{}, Excluded: map[string]map[dialogue.End]int{}}
	for i := range s.Roles {
		s.Roles[i].Faults = map[dialogue.Fault]int{}
	}
	return s
}

// message counts a finished turn.
func (s *Stats) message(m dialogue.Message) {
	r := &s.Roles[m.Role]
	r.Messages++
	if m.Fault != "" {
		r.Faults[m.Fault]++
	}
	if m.Closed {
		r.Closed++
	}
}

// episode counts a dialogue that is over.
func (s *Stats) episode(ep *dialogue.Episode) {
	s.Ends[ep.End]++
	if ep.End.Excluded() {
		by := s.Excluded[ep.Profile.ID]
		if by == nil {
			by = map[dialogue.End]int{}
			s.Excluded[ep.Profile.ID] = by
		}
		by[ep.End]++
	}
}

// sequence counts the tokens of a role's part in a dialogue that is over.
func (s *RoleStats) sequence(q *Sequence) {
	s.Tokens += len(q.Trace.Tokens)
	s.Sampled += q.Sampled
	s.Kept += q.Kept
}
