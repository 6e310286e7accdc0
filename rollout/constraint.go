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

// freeTurn lets a model write what it likes until it ends its turn, or is cut at its limit.
type freeTurn struct {
	end   int32   // the template's end of turn
	stops []int32 // other tokens that end a generation; a turn that ends so is malformed
	left  int     // tokens that may still be sampled
	last  int32
	any   bool
}

func (f *freeTurn) Next() Next {
	switch {
	case f.any && (f.last == f.end || slices.Contains(f.stops, f.last)):
		return Next{Done: true}
	case f.left <= 0: // history must stay well-formed
		return Next{Forced: []int32{f.end}, Done: true}
	}
	return Next{}
}

func (f *freeTurn) Accept(id int32) {
	f.last, f.any = id, true
	f.left--
}

// cut reports whether the turn reached its limit without an end.
func (f *freeTurn) cut() bool { return f.any && f.last != f.end }
