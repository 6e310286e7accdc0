package torch

/*
#include "seadnative.h"
*/
import "C"

// The stack of open scopes. Only the engine thread touches it.
var scopes []*scope

type scope struct{ tensors []*Tensor }

func openScope() { scopes = append(scopes, &scope{}) }

// closeScope frees the innermost scope's tensors, but for those of keep, which move to the scope around it.
func closeScope(keep []*Tensor) {
	last := len(scopes) - 1
	s := scopes[last]
	scopes[last] = nil // or the array would keep its tensors from Go's collector
	scopes = scopes[:last]
	for _, t := range keep {
		if t != nil && t.scope == s {
			t.scope = nil
			if len(scopes) > 0 {
				adopt(t)
			}
		}
	}
	doomed := make([]C.sn_tensor, 0, len(s.tensors))
	for _, t := range s.tensors {
		if t.scope == s && t.h != nil {
			doomed = append(doomed, t.h)
			t.h, t.scope = nil, nil
		}
	}
	if len(doomed) > 0 {
		C.sn_free_many(&doomed[0], C.int(len(doomed)))
	}
}

func adopt(t *Tensor) {
	s := scopes[len(scopes)-1]
	t.scope = s
	s.tensors = append(s.tensors, t)
}

// Scoped runs f in a child scope: its result moves out, everything else made in it is freed, also when f panics.
func Scoped(f func() *Tensor) *Tensor {
	return ScopedN(func() []*Tensor { return []*Tensor{f()} })[0]
}

// ScopedN is Scoped for several results.
func ScopedN(f func() []*Tensor) []*Tensor {
	var out []*Tensor
	InScope(func() { out = f() }, &out)
	return out
}

// InScope runs f in a child scope and frees everything made in it, but for the tensors listed in keep when f is done.
func InScope(f func(), keep ...*[]*Tensor) {
	openScope()
	depth := len(scopes)
	done := false
	defer func() {
		for len(scopes) > depth {
			closeScope(nil)
		}
		var kept []*Tensor
		if done {
			for _, k := range keep {
				kept = append(kept, *k...)
			}
		}
		closeScope(kept)
	}()
	f()
	done = true
}

// Keep takes the tensor out of its scope: from now on it lives until Free.
func (t *Tensor) Keep() *Tensor {
	t.scope = nil
	watch(t)
	return t
}

// Free releases the handle now. Views and saved graph nodes keep the memory they need. Freeing twice does nothing.
func (t *Tensor) Free() {
	if t == nil || t.h == nil {
		return
	}
	C.sn_free(t.h)
	t.h, t.scope = nil, nil
	if t.kept != nil {
		t.kept.freed.Store(true)
	}
}
