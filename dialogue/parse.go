package dialogue

import "strings"

// space is what may stand between fields and at a value's ends: ASCII white space, no more.
const space = " \t\r\n"

// Parse reads a message strictly: every field of the protocol, once, in order, and nothing else. White space (space,
// tab, CR, LF) is tolerated in three places only: before the first field, between two, and after the last; at the ends
// of a value it is cut off. Values come back by tag, cleaned (see Clean), numbers and enums in canonical spelling.
// A message that breaks any rule gives nil and the class of its first fault; nothing is guessed.
func (p *Protocol) Parse(text string) (map[string]string, Fault) {
	rest := strings.Trim(Clean(text), space)
	if rest == "" {
		return nil, FaultEmptyMessage
	}
	values := make(map[string]string, len(p.Fields))
	for i := range p.Fields {
		f := &p.Fields[i]
		body, ok := strings.CutPrefix(strings.TrimLeft(rest, space), f.Open())
		if !ok {
			return nil, p.faultAt(i, rest)
		}
		end := strings.IndexByte(body, '<')
		if end < 0 {
			return nil, FaultUnterminated
		}
		after, ok := strings.CutPrefix(body[end:], f.Close())
		if !ok {
			return nil, p.faultInside(body[end:])
		}
		value := strings.Trim(body[:end], space)
		if fault := f.check(value); fault != "" {
			return nil, fault
		}
		values[f.Tag] = value
		rest = after
	}
	if rest != "" {
		if j := p.opening(rest); j >= 0 {
			return nil, FaultDuplicate
		}
		return nil, FaultTrailing
	}
	return values, ""
}

// faultAt classifies what stands where field i should open.
func (p *Protocol) faultAt(i int, rest string) Fault {
	rest = strings.TrimLeft(rest, space)
	j := p.opening(rest)
	switch {
	case strings.HasPrefix(p.Fields[i].Open(), rest): // nothing left, or cut in mid-tag
		return FaultMissingTag
	case j >= 0 && j < i:
		return FaultDuplicate
	case j > i && strings.Contains(rest, p.Fields[i].Open()):
		return FaultWrongOrder
	case j > i:
		return FaultMissingTag
	case rest[0] == '<':
		return FaultUnknownTag
	}
	return FaultOutside
}

// faultInside classifies a '<' in a value that does not begin the field's closing tag. What the end of the message
// cuts off in mid-tag counts as unterminated, not as a stray '<'.
func (p *Protocol) faultInside(rest string) Fault {
	for i := range p.Fields {
		for _, tag := range []string{p.Fields[i].Open(), p.Fields[i].Close()} {
			if strings.HasPrefix(rest, tag) || strings.HasPrefix(tag, rest) {
				return FaultUnterminated
			}
		}
	}
	return FaultAngle
}

// opening is the index of the field whose opening tag the text starts with, -1 if none.
func (p *Protocol) opening(text string) int {
	text = strings.TrimLeft(text, space)
	for i := range p.Fields {
		if strings.HasPrefix(text, p.Fields[i].Open()) {
			return i
		}
	}
	return -1
}

// check classifies a field's value.
func (f *Field) check(value string) Fault {
	if f.Kind == Text {
		if f.Means == MeansReply && value == "" {
			return FaultEmptyReply
		}
		return ""
	}
	if _, ok := f.number(value); !ok {
		return FaultBadValue
	}
	return ""
}

// Extract reads tagged values from a published record, whose layout and protocol are not ours: every <tag>value</tag>
// anywhere in the text, the first of each tag, trimmed. It checks nothing. On a message that Parse accepts it gives
// the same values, so our own records need no second copy of them. Live messages go through Parse.
func Extract(text string) map[string]string {
	values := map[string]string{}
	for {
		start := strings.IndexByte(text, '<')
		if start < 0 {
			return values
		}
		text = text[start+1:]
		stop := strings.IndexByte(text, '>')
		if stop < 0 {
			return values
		}
		tag := text[:stop]
		if !isTag(tag) {
			continue
		}
		value, after, ok := strings.Cut(text[stop+1:], "</"+tag+">")
		if !ok {
			continue
		}
		if _, seen := values[tag]; !seen {
			values[tag] = strings.Trim(value, space)
		}
		text = after
	}
}

// isTag: a letter, then letters, digits and underscores.
func isTag(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
