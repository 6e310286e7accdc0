package tokenizer

import "unicode/utf8"

// Decode is the text of ids. Bytes that are not UTF-8 become U+FFFD as in the library, ids that are not in use too.
// With skipSpecial, special tokens are left out.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	s := t.NewStream(skipSpecial)
	out := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		out = append(out, s.Push(id)...)
	}
	return string(append(out, s.Flush()...))
}

// Stream decodes token by token: a character spread over several tokens comes out whole, once it is complete.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	pending     []byte // an incomplete character
}

// NewStream begins a text.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial}
}

// Push takes the next token and returns the text that is now certain; it may be empty.
func (s *Stream) Push(id int32) string {
	b := s.t.Bytes(id)
	if b == nil {
		return s.Flush() + "\uFFFD"
	}
	if s.skipSpecial && s.t.table.special[id] {
		return ""
	}
	s.pending = append(s.pending, b...)
	out, rest := appendLossy(nil, s.pending)
	s.pending = append(s.pending[:0], rest...)
	return string(out)
}

// Flush ends the text: what is incomplete comes out as one U+FFFD.
func (s *Stream) Flush() string {
	if len(s.pending) == 0 {
		return ""
	}
	s.pending = s.pending[:0]
	return "\uFFFD"
}

// lossy makes text of b; every maximal piece that is not UTF-8 becomes one U+FFFD.
func lossy(b []byte) string {
	out, rest := appendLossy(nil, b)
	if len(rest) > 0 {
		out = append(out, "\uFFFD"...)
	}
	return string(out)
}

// appendLossy appends b as UTF-8 to dst; rest is an incomplete character at the end of b. The unit that is replaced is
// Unicode's "maximal subpart": the longest piece that could have begun a character.
func appendLossy(dst, b []byte) (out, rest []byte) {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			if !utf8.FullRune(b) {
				return dst, b
			}
			for n < len(b) && !utf8.FullRune(b[:n]) && !utf8.FullRune(b[:n+1]) {
				n++
			}
			dst = append(dst, "\uFFFD"...)
		} else {
			dst = append(dst, b[:n]...)
		}
		b = b[n:]
	}
	return dst, nil
}
