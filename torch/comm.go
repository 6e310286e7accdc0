package torch

/*
#include <stdlib.h>
#include "seadnative.h"
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"
)

// Comm is a group of ranks. A group of one does nothing and costs nothing: everything that is ever sharded takes a Comm
// and never asks whether there is one. Collectives run on the engine thread, on contiguous tensors, in the same order on
// every rank.
type Comm struct {
	rank, size int
	name       string
	dry        bool
	h          C.sn_comm
}

// Solo is the group of one.
func Solo() *Comm { return &Comm{size: 1, name: "solo"} }

// Dry is one rank of a group whose other ranks are imagined: collectives give the right shapes and this rank's own
// numbers. For models on Meta, whose memory and shapes are asked for before there are machines.
func Dry(rank, size int) *Comm { return &Comm{rank: rank, size: size, name: "dry", dry: true} }

func (c *Comm) Rank() int    { return c.rank }
func (c *Comm) Size() int    { return c.size }
func (c *Comm) Name() string { return c.name }

// Store is the rendezvous of a job's ranks: a key-value server on rank 0.
type Store struct {
	h    unsafe.Pointer
	Port int // the port in use; useful when port 0 was asked for
}

// OpenStore serves (rank 0) or joins the store.
func OpenStore(host string, port int, server bool, world int, timeout time.Duration) (*Store, error) {
	s := &Store{}
	err := Do(func() {
		ch := C.CString(host)
		defer C.free(unsafe.Pointer(ch))
		var bound C.int
		check("store_open", C.sn_store_open(ch, C.int(port), cbool(server), C.int(world), C.int64_t(timeout.Milliseconds()), &s.h, &bound))
		s.Port = int(bound)
	})
	if err != nil {
		return nil, fmt.Errorf("store %s:%d: %w", host, port, err)
	}
	return s, nil
}

// Close leaves the store.
func (s *Store) Close() {
	if s.h != nil {
		C.sn_store_close(s.h)
		s.h = nil
	}
}

// Gloo opens a group of CPU ranks under a name that all of them use. timeout bounds each collective.
func (s *Store) Gloo(name string, rank, size int, timeout time.Duration) (*Comm, error) {
	c := &Comm{rank: rank, size: size, name: name}
	if size == 1 {
		return c, nil
	}
	err := Do(func() {
		cn := C.CString(name)
		defer C.free(unsafe.Pointer(cn))
		check("gloo_open", C.sn_gloo_open(s.h, cn, C.int(rank), C.int(size), C.int64_t(timeout.Milliseconds()), &c.h))
	})
	if err != nil {
		return nil, fmt.Errorf("group %s, rank %d of %d: %w", name, rank, size, err)
	}
	return c, nil
}

// Close leaves the group.
func (c *Comm) Close() {
	if c.h != nil {
		C.sn_comm_close(c.h)
		c.h = nil
	}
}

func (c *Comm) check(op string, st C.sn_status, t *Tensor) {
	check(fmt.Sprintf("%s[%s rank %d/%d]", op, c.name, c.rank, c.size), st, t)
}

// talks reports whether there is anything to exchange.
func (c *Comm) talks(t *Tensor) bool { return c.size > 1 && !c.dry && t.Device() != Meta }

// AllReduceInPlace sums over the ranks.
func (c *Comm) AllReduceInPlace(t *Tensor) *Tensor {
	if c.talks(t) {
		c.check("all_reduce", C.sn_all_reduce_(c.h, t.h, 0), t)
	}
	return t
}

// AllReduceMaxInPlace takes the maximum over the ranks.
func (c *Comm) AllReduceMaxInPlace(t *Tensor) *Tensor {
	if c.talks(t) {
		c.check("all_reduce_max", C.sn_all_reduce_(c.h, t.h, 1), t)
	}
	return t
}

// AllGather stacks the ranks' tensors: [...] becomes [size, ...].
func (c *Comm) AllGather(t *Tensor) *Tensor {
	if c.size == 1 {
		return t.Reshape(append([]int64{1}, t.Shape()...)...)
	}
	if !c.talks(t) {
		same := make([]*Tensor, c.size)
		for i := range same {
			same[i] = t
		}
		return Cat(0, same...).Reshape(append([]int64{int64(c.size)}, t.Shape()...)...)
	}
	var h C.sn_tensor
	c.check("all_gather", C.sn_all_gather(c.h, t.h, C.int(c.size), &h), t)
	return own(h)
}

// ReduceScatter sums over the ranks and keeps this rank's part of the first dimension.
func (c *Comm) ReduceScatter(t *Tensor) *Tensor {
	if c.size == 1 {
		return t
	}
	if !c.talks(t) {
		return t.Narrow(0, 0, t.Dim(0)/int64(c.size))
	}
	var h C.sn_tensor
	c.check("reduce_scatter", C.sn_reduce_scatter(c.h, t.h, C.int(c.size), &h), t)
	return own(h)
}

// BroadcastInPlace copies root's tensor to all.
func (c *Comm) BroadcastInPlace(t *Tensor, root int) *Tensor {
	if c.talks(t) {
		c.check("broadcast", C.sn_broadcast_(c.h, t.h, C.int(root)), t)
	}
	return t
}

// Barrier waits for all ranks.
func (c *Comm) Barrier() {
	if c.size > 1 && !c.dry {
		c.check("barrier", C.sn_barrier(c.h), nil)
	}
}

// SumFloats sums a small vector over the ranks, in double.
func (c *Comm) SumFloats(v []float64) []float64 {
	if c.size == 1 {
		return v
	}
	return Data[float64](c.AllReduceInPlace(Of(v)))
}

// GatherFloats gives every rank's vector, in rank order; all must be of one length.
func (c *Comm) GatherFloats(v []float64) [][]float64 {
	all := Data[float64](c.AllGather(Of(v)))
	out := make([][]float64, c.size)
	for r := range out {
		out[r] = all[r*len(v) : (r+1)*len(v)]
	}
	return out
}
