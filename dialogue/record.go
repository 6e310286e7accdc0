package dialogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// record is one line of an episode file. The first four keys are the published dialogue record, which evaluation
// scripts of others read; the rest is ours and absent from published files.
type record struct {
	History       []entry `json:"ground_truth_history"`
	ChatbotStatus number  `json:"chatbot_status"`
	FinalStatus   number  `json:"final_status"`
	TotalTurns    number  `json:"total_turns"`

	ID       string   `json:"id,omitempty"`
	Profile  *Profile `json:"profile,omitempty"`
	Group    int      `json:"group"`
	Member   int      `json:"member"`
	End      End      `json:"end,omitempty"` // its presence marks a record as ours
	Reward   float64  `json:"reward"`
	Excluded bool     `json:"excluded"`         // follows from end; written for scripts
	Fault    Fault    `json:"fault,omitempty"`  // of the last message: a malformed message ends its dialogue
	Closed   []int    `json:"closed,omitempty"` // messages in which a text was closed by force
	Error    string   `json:"error,omitempty"`
	Seed     uint64   `json:"seed,string,omitempty"` // a string, since many JSON readers lose digits beyond 2^53
	Trace    *traces  `json:"trace,omitempty"`
}

type entry struct {
	Role    string `json:"role"` // "assistant" is the agent
	Content string `json:"content"`
}

type traces struct {
	Agent trace `json:"agent"`
	User  trace `json:"user"`
}

type trace struct {
	Tokens      []int32   `json:"tokens"`
	Loss        []bool    `json:"loss"`
	Sets        []int32   `json:"sets"`
	LogProbs    []float32 `json:"log_probs"`
	Temperature float64   `json:"temperature"`
}

// number is a whole number that published files also write as a string or with a fraction of zero; absent or null is
// not set.
type number struct {
	value int
	set   bool
}

func (n number) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, int64(n.value), 10), nil }

func (n *number) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	f, err := strconv.ParseFloat(string(bytes.Trim(data, `"`)), 64)
	if err != nil || f != float64(int(f)) {
		return fmt.Errorf("%s is no whole number", data)
	}
	*n = number{int(f), true}
	return nil
}

// WriteOptions say what a record holds beside the dialogue. The zero value is the default.
type WriteOptions struct {
	Trace bool // also the token traces, under "trace": some ten times the size
}

// MarshalEpisode is the episode's line in a JSONL file, newline included. What could not be read back as it was is
// refused: unclean text, values that do not follow from the text, a fault in a message that is not the last.
func MarshalEpisode(ep *Episode, opts WriteOptions) ([]byte, error) {
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("write episode %q: %w", ep.ID, err) }
	r := record{
		History: make([]entry, len(ep.Messages)), ChatbotStatus: number{value: ep.ChatbotStatus},
		FinalStatus: number{value: ep.FinalStatus}, TotalTurns: number{value: ep.Turns},
		ID: ep.ID, Group: ep.Group, Member: ep.Member, End: ep.End, Reward: ep.Reward, Excluded: ep.End.Excluded(),
		Error: ep.Err, Seed: ep.Seed,
	}
	if ep.Profile.ID != "" {
		r.Profile = &ep.Profile
	}
	for i, m := range ep.Messages {
		switch {
		case !utf8.ValidString(m.Content):
			return fail(fmt.Errorf("message %d is not valid UTF-8: it was not cleaned", i))
		case m.Fault != "" && i < len(ep.Messages)-1:
			return fail(fmt.Errorf("message %d is malformed (%s) but not the last", i, m.Fault))
		case m.Fault == "" && !maps.Equal(m.Values, Extract(m.Content)):
			return fail(fmt.Errorf("message %d: its values are not those of its text", i))
		}
		r.History[i] = entry{publishedRole(m.Role), m.Content}
		if m.Closed {
			r.Closed = append(r.Closed, i)
		}
		r.Fault = m.Fault
	}
	if opts.Trace {
		r.Trace = &traces{trace(ep.Agent), trace(ep.User)}
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // tags stay readable
	if err := enc.Encode(r); err != nil {
		return fail(err)
	}
	return line.Bytes(), nil
}

func publishedRole(r Role) string {
	if r == Agent {
		return "assistant"
	}
	return "user"
}

// unmarshalEpisode reads one line. Of a published record, which has none of our keys, the end stays unknown and the
// reward follows from final_status. Values are what Extract finds; a malformed message of our own has none.
func unmarshalEpisode(line []byte) (Episode, error) {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return Episode{}, ExplainJSON(err)
	}
	if err := r.check(); err != nil {
		return Episode{}, err
	}
	ep := Episode{
		ID: r.ID, Group: r.Group, Member: r.Member, End: r.End, Reward: r.Reward, Turns: r.TotalTurns.value,
		ChatbotStatus: r.ChatbotStatus.value, FinalStatus: r.FinalStatus.value, Err: r.Error, Seed: r.Seed,
	}
	if r.End == "" && ep.FinalStatus == StatusSuccess {
		ep.Reward = 1
	}
	if r.Profile != nil {
		ep.Profile = *r.Profile
		if ep.Profile.ID == "" { // written by other hands; statistics group by it
			ep.Profile.ID = ProfileID(ep.Profile)
		}
	}
	for i, e := range r.History {
		m := Message{Role: Agent, Content: e.Content, Closed: slices.Contains(r.Closed, i)}
		if e.Role == "user" {
			m.Role = User
		}
		if i == len(r.History)-1 {
			m.Fault = r.Fault
		}
		if m.Fault == "" {
			m.Values = Extract(m.Content)
		}
		ep.Messages = append(ep.Messages, m)
	}
	if r.Trace != nil {
		ep.Agent, ep.User = Trace(r.Trace.Agent), Trace(r.Trace.User)
	}
	return ep, nil
}

// check reports all that makes a record unusable.
func (r *record) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.History == nil {
		bad("ground_truth_history: missing: want a list of {\"role\", \"content\"}")
	}
	for i, e := range r.History {
		if e.Role != "assistant" && e.Role != "user" {
			bad("ground_truth_history[%d].role: %q: want \"assistant\" or \"user\"", i, e.Role)
		}
	}
	if !r.FinalStatus.set {
		bad("final_status: missing")
	}
	if !r.TotalTurns.set {
		bad("total_turns: missing")
	} else if r.TotalTurns.value < 0 {
		bad("total_turns: %d: want 0 or more", r.TotalTurns.value)
	}
	for _, s := range []struct {
		key string
		n   number
	}{{"chatbot_status", r.ChatbotStatus}, {"final_status", r.FinalStatus}} {
		if s.n.value < StatusFailed || s.n.value > StatusSuccess {
			bad("%s: %d: want -1, 0 or 1", s.key, s.n.value)
		}
	}
	if r.End != "" && !slices.Contains(Ends, r.End) {
		bad("end: %q: want one of %v", r.End, Ends)
	}
	if r.Fault != "" && !slices.Contains(Faults, r.Fault) {
		bad("fault: %q: want one of %v", r.Fault, Faults)
	}
	return errors.Join(errs...)
}
