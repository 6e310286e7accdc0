// Package torch is seadtrain's binding of libtorch: tensors, autograd, optimizer steps, collectives and the fused CPU
// kernels of native/. It is the only package that imports "C".
//
// # Threads
//
// All tensor work of a process runs on one locked OS thread, because grad mode, streams and OpenMP teams are per thread
// in libtorch. Do hops to that thread (about 20 µs) and runs a function there; inside it an op costs one cgo call (about
// 50 ns). Submit whole steps, never single ops. Do called on the engine thread itself runs in place.
//
// # Ownership
//
// There are no finalizers: Go's collector cannot see native memory. Every tensor belongs to a Scope and is freed with it.
// Scopes form a stack on the engine thread: Do opens one, Scoped opens a child and moves its result out. A result always
// joins the innermost open scope. (Since scopes are a stack on one thread, that scope is at least as young as those of
// all operands, so nothing can outlive what it was made from by accident, and nothing is freed later than need be.)
// Keep takes a tensor out of all scopes: a weight, a cache. Its owner calls Free. Live counts handles; tests end with
// the count they began with.
//
// # Errors
//
// Ops panic with *Error, which carries the op, the operands' shapes and libtorch's message; Do turns the panic into an
// error. Nothing else recovers.
//
// # Why an own binding
//
// github.com/wangkuiyi/gotorch stopped at libtorch 1.6 and no module proxy serves it; gotch relies on finalizers. What
// gotorch got right is kept: the status comes back from the same call, names follow PyTorch, and the thread is locked.
package torch
