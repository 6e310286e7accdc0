package eval

import (
	"math"
	"strconv"

	"seadtrain/dialogue"
)

// The metrics, in the order of tables.
const (
	cr = iota
	att
	adt
	upa
	ei
	ti
	ci
	fpr
	scr
	metrics // their number
)

// The two definitions of each metric.
const (
	published = iota
	normalised
	definitions
)

// row holds one dialogue's value of each metric under each definition; NaN: none.
type row [definitions][metrics]float64

// improvement names the dimensions of the published metrics, each with the metric of its improvement.
var improvement = map[string]int{"cooperation": ci, "emotion": ei, "trust": ti}

// reader reads a scenario's messages under one definition.
type reader struct {
	scn        *dialogue.Scenario
	definition int
	dims       []dialogue.Dimension // those measured
}

func newReader(s *dialogue.Scenario, definition int) reader {
	r := reader{scn: s, definition: definition}
	for _, d := range s.Dimensions {
		means := dialogue.MeansState + d.Name
		if s.Agent.Protocol.ByMeaning(means) == nil || s.User.Protocol.ByMeaning(means) == nil {
			continue
		}
		if _, ok := improvement[d.Name]; ok || definition == normalised {
			r.dims = append(r.dims, d)
		}
	}
	if definition == published && len(r.dims) < len(improvement) {
		r.dims = nil
	}
	return r
}

// number is what a message says under a meaning.
func (r reader) number(m dialogue.Message, means string) (int, bool) {
	p := &r.scn.Agent.Protocol
	if m.Role == dialogue.User {
		p = &r.scn.User.Protocol
	}
	f := p.ByMeaning(means)
	if r.definition == normalised || f == nil || f.Kind != dialogue.Int {
		return p.Number(m.Values, means)
	}
	values := m.Values
	if values == nil {
		values = dialogue.Extract(m.Content)
	}
	n, err := strconv.Atoi(values[f.Tag])
	return n, err == nil
}

// state is the measured dimensions' levels in a message: an estimate of the agent's, or the user's own. False if one
// is missing.
func (r reader) state(m dialogue.Message) ([]int, bool) {
	levels := make([]int, len(r.dims))
	for i, d := range r.dims {
		var ok bool
		if levels[i], ok = r.number(m, dialogue.MeansState+d.Name); !ok {
			return nil, false
		}
	}
	return levels, len(levels) > 0
}

// measure takes all metrics of one dialogue.
func measure(s *dialogue.Scenario, ep *dialogue.Episode) row {
	var out row
	for def := range definitions {
		r := newReader(s, def)
		v := &out[def]
		for m := range v {
			v[m] = math.NaN()
		}
		success := ep.FinalStatus == dialogue.StatusSuccess
		v[cr] = share(success)
		v[adt] = float64(ep.Turns)
		if success {
			v[att] = float64(ep.Turns)
		}
		if ep.ChatbotStatus == dialogue.StatusSuccess {
			v[fpr] = share(!success)
		}
		if s.Agent.Protocol.ByMeaning(dialogue.MeansStage) != nil {
			v[scr] = share(reader{scn: s, definition: published}.stagesComplete(ep.Messages))
		}
		v[upa] = r.accuracy(ep.Messages)
		r.improvements(ep.Messages, v)
	}
	return out
}

func share(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// accuracy is the dialogue's UPA, NaN without any complete pair.
func (r reader) accuracy(messages []dialogue.Message) float64 {
	total := make([]float64, len(r.dims)) // absolute errors by dimension
	pairs := 0
	for i := 0; i+1 < len(messages); i++ {
		if messages[i].Role != dialogue.Agent || messages[i+1].Role != dialogue.User {
			continue
		}
		estimate, ok := r.state(messages[i])
		truth, ok2 := r.state(messages[i+1])
		if !ok || !ok2 {
			continue
		}
		pairs++
		for k := range total {
			total[k] += math.Abs(float64(estimate[k] - truth[k]))
		}
	}
	if pairs == 0 {
		return math.NaN()
	}
	mean := 0.0 // of the dimensions' errors as shares of their range
	for k, d := range r.dims {
		span := 4.0
		if r.definition == normalised {
			span = float64(d.Levels - 1)
		}
		mean += total[k] / float64(pairs) / span / float64(len(r.dims))
	}
	return 1 - mean
}

// improvements fills in EI, TI and CI where the side's first and last message have all numbers.
func (r reader) improvements(messages []dialogue.Message, v *[metrics]float64) {
	side := dialogue.Agent
	if r.definition == normalised {
		side = dialogue.User
	}
	var own []dialogue.Message
	for _, m := range messages {
		if m.Role == side {
			own = append(own, m)
		}
	}
	if len(own) == 0 {
		return
	}
	first, ok := r.state(own[0])
	last, ok2 := r.state(own[len(own)-1])
	if !ok || !ok2 {
		return
	}
	for k, d := range r.dims {
		if m, ok := improvement[d.Name]; ok {
			v[m] = float64(last[k] - first[k])
		}
	}
}

// stagesComplete: the agent's last stage, and before it every lower one.
func (r reader) stagesComplete(messages []dialogue.Message) bool {
	seen := map[int]bool{}
	last := -1
	for _, m := range messages {
		if m.Role != dialogue.Agent {
			continue
		}
		if stage, ok := r.number(m, dialogue.MeansStage); ok {
			seen[stage] = true
			last = stage
		}
	}
	for stage := range last {
		if !seen[stage] {
			return false
		}
	}
	return last >= 0
}
