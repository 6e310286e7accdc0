package dialogue

import (
	"slices"
	"strconv"
	"strings"
)

// Kind is the type of a tagged field's value.
type Kind string

const (
	Text Kind = "text" // free text without '<'
	Int  Kind = "int"  // a decimal number in [Min, Max], canonical: no sign but '-', no leading zero
	Enum Kind = "enum" // one of Values
)

// What a field can mean to the program (Field.Means). A state's meaning is MeansState plus the dimension's name.
const (
	MeansReply   = "reply"   // the only part the other side hears
	MeansPrivate = "private" // never leaves its owner
	MeansState   = "state:"  // the user's true level, or the agent's estimate of it
	MeansNoise   = "noise"
	MeansStage   = "stage"
	MeansStatus  = "status" // StatusFailed, StatusGoOn or StatusSuccess
)

// Field is one tagged field of a message: <Tag>value</Tag>.
type Field struct {
	Tag  string `json:"tag" toml:"tag"`
	Kind Kind   `json:"kind" toml:"kind"`
	// Min and Max bound an Int, both included.
	Min int `json:"min,omitempty" toml:"min"`
	Max int `json:"max,omitempty" toml:"max"`
	// Values are an Enum's words, low to high. They stand for numbers: of a state, stage or noise the word's place
	// (0, 1, …), of a status that place less one (-1, 0, 1).
	Values []string `json:"values,omitempty" toml:"values"`
	// Means ties the tag to what the program does with it, one of the Means constants.
	Means string `json:"means" toml:"means"`
	// MaxTokens closes a text by force when it is reached in guided mode; 0: only the turn's own limit holds.
	MaxTokens int `json:"max_tokens,omitempty" toml:"max_tokens"`
}

// Open and Close are the field's tags as they are written.
func (f *Field) Open() string  { return "<" + f.Tag + ">" }
func (f *Field) Close() string { return "</" + f.Tag + ">" }

// Words lists every value an Int or Enum field can take, in canonical spelling; nil for Text.
func (f *Field) Words() []string {
	switch f.Kind {
	case Enum:
		return slices.Clone(f.Values)
	case Int:
		words := make([]string, 0, f.Max-f.Min+1)
		for n := f.Min; n <= f.Max; n++ {
			words = append(words, strconv.Itoa(n))
		}
		return words
	}
	return nil
}

// number is the number a canonical value of an Int or Enum field stands for.
func (f *Field) number(value string) (int, bool) {
	switch f.Kind {
	case Int:
		n, err := strconv.Atoi(value)
		return n, err == nil && strconv.Itoa(n) == value && f.Min <= n && n <= f.Max
	case Enum:
		i := slices.Index(f.Values, value)
		if i >= 0 && f.Means == MeansStatus {
			return i + StatusFailed, true
		}
		return i, i >= 0
	}
	return 0, false
}

// Protocol is the ordered list of fields a role writes in one message.
type Protocol struct {
	Fields []Field `json:"fields" toml:"fields"`
	// Separator is the white space written between two fields, "\n" for example; empty: none. Reading accepts any
	// white space there.
	Separator string `json:"separator,omitempty" toml:"separator"`
}

// ByMeaning is the field with that meaning, nil if the protocol has none. Meanings other than "private" are unique.
func (p *Protocol) ByMeaning(means string) *Field {
	for i := range p.Fields {
		if p.Fields[i].Means == means {
			return &p.Fields[i]
		}
	}
	return nil
}

// Reply is the part of a message that the other side hears; "" where it is absent.
func (p *Protocol) Reply(values map[string]string) string {
	if f := p.ByMeaning(MeansReply); f != nil {
		return values[f.Tag]
	}
	return ""
}

// Number is the number that the field with this meaning holds; false if field or value is missing or no valid value.
func (p *Protocol) Number(values map[string]string, means string) (int, bool) {
	f := p.ByMeaning(means)
	if f == nil {
		return 0, false
	}
	value, ok := values[f.Tag]
	if !ok {
		return 0, false
	}
	return f.number(value)
}

// Status is the message's status; false if it has none.
func (p *Protocol) Status(values map[string]string) (int, bool) { return p.Number(values, MeansStatus) }

// StateOf is the state a message reports (a user) or estimates (an agent); false if any dimension is missing. Where
// dimensions are wanted one by one, use Number with MeansState+name.
func (p *Protocol) StateOf(values map[string]string, dims []Dimension) (State, bool) {
	st := make(State, len(dims))
	for i, d := range dims {
		n, ok := p.Number(values, MeansState+d.Name)
		if !ok {
			return nil, false
		}
		st[i] = n
	}
	return st, true
}

// Render writes a message of these values; a field without one is written empty. Parse(Render(v)) gives v back when
// every value is valid and carries no white space at its ends.
func (p *Protocol) Render(values map[string]string) string {
	var b strings.Builder
	for i := range p.Fields {
		f := &p.Fields[i]
		if i > 0 {
			b.WriteString(p.Separator)
		}
		b.WriteString(f.Open())
		b.WriteString(values[f.Tag])
		b.WriteString(f.Close())
	}
	return b.String()
}

// Segment is one piece of a message in guided mode: fixed text that is forced, or a field whose value is sampled.
type Segment struct {
	Literal string // forced; empty where Field is set
	Field   *Field
}

// Segments is a message's skeleton: literal, field, literal, …, literal. The literal after a field begins with that
// field's closing tag and runs through the separator to the next field's opening tag. After the last literal comes
// the model's end-of-turn token, which is the chat template's affair.
func (p *Protocol) Segments() []Segment {
	var segs []Segment
	literal := ""
	for i := range p.Fields {
		f := &p.Fields[i]
		if i > 0 {
			literal += p.Separator
		}
		segs = append(segs, Segment{Literal: literal + f.Open()}, Segment{Field: f})
		literal = f.Close()
	}
	return append(segs, Segment{Literal: literal})
}
