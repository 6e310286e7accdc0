package rollout

import "slices"

// Next is what a constraint wants of a generation: tokens to append as they are, then a token drawn from a set; or the end.
type Next struct {
	Forced []int32 // not sampled, not in the loss; not to be changed
	Set    int32   // allowed set of the token that is sampled after them
	Done   bool    // nothing is sampled after them: the generation is over
}

// Constraint steers one generation. Next is asked at its beginning and after every accepted token.
type Constraint interface {
	Next() Next
	Accept(id int32)
}

// turn is the constraint of one message. Its last token is always the end of turn, or another stop.
type turn interface {
	Constraint
	cut() bool    // it reached its limit before the model ended it
	closed() bool // a text in it was closed by force
}

// freeTurn lets a model write what it likes until it ends its turn, or is cut at its limit.
type freeTurn struct {
	end   int32   // the template's end of turn
	stops []int32 // other tokens that end a generation; they stay in the message, which is malformed by them
	left  int     // tokens that may still be sampled
	over  bool
}

func (f *freeTurn) Next() Next {
	switch {
	case f.over:
		return Next{Done: true}
	case f.left == 0: // the history must stay well-formed
		return Next{Forced: []int32{f.end}, Done: true}
	}
	return Next{}
}

func (f *freeTurn) Accept(id int32) {
	f.left--
	f.over = id == f.end || slices.Contains(f.stops, id)
}

func (f *freeTurn) cut() bool    { return !f.over }
func (f *freeTurn) closed() bool { return false }
