package model

import (
	"fmt"

	"seadtrain/torch"
)

// Cache is a pool of KV blocks for one model, BlockSize tokens each, in all layers. Sequences hold lists of block
// numbers; a block that several of them share (a common prompt) is counted. It knows nothing of sequences.
type Cache struct {
	m            *Model
	keys, values []*torch.Tensor // per layer: [blocks, k, d, BlockSize] and [blocks, k, BlockSize, d]
	refs         []int32         // users of each block
	free         []int32
}

// CacheBytes is the memory of one block on this rank.
func (m *Model) CacheBytes() int64 {
	c := m.Config
	return 2 * int64(c.NumHiddenLayers) * int64(c.NumKeyValueHeads/m.tp.Size()) * int64(c.HeadDim) * torch.BlockSize * int64(m.DType.Size())
}

// NewCache allocates a pool.
func NewCache(m *Model, blocks int) (*Cache, error) {
	if blocks < 1 {
		return nil, fmt.Errorf("a cache of %d blocks holds nothing", blocks)
	}
	c := &Cache{m: m, refs: make([]int32, blocks)}
	for b := blocks - 1; b >= 0; b-- {
		c.free = append(c.free, int32(b))
	}
	err := torch.Do(func() {
		k, d, n := int64(m.Config.NumKeyValueHeads/m.tp.Size()), int64(m.Config.HeadDim), int64(blocks)
		for range m.Config.NumHiddenLayers {
			// Zeros, not empty: pages are touched now, where running out of memory is an error and not a kill later.
			c.keys = append(c.keys, torch.Zeros(m.DType, m.Device, n, k, d, torch.BlockSize).Keep())
			c.values = append(c.values, torch.Zeros(m.DType, m.Device, n, k, torch.BlockSize, d).Keep())
		}
	})
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("KV cache of %d blocks: %w", blocks, err)
	}
	return c, nil
}

// Blocks is the size of the pool, Free how many are unused.
func (c *Cache) Blocks() int { return len(c.refs) }
func (c *Cache) Free() int   { return len(c.free) }

// Alloc takes a block for one user.
func (c *Cache) Alloc() (int32, bool) {
	if len(c.free) == 0 {
		return -1, false
	}
	b := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.refs[b] = 1
	return b, true
}

// Retain adds a user, Release removes one; a block without users is free at once.
func (c *Cache) Retain(b int32) { c.refs[b]++ }

func (c *Cache) Release(b int32) {
	c.refs[b]--
	switch {
	case c.refs[b] == 0:
		c.free = append(c.free, b)
	case c.refs[b] < 0:
		panic(fmt.Sprintf("KV cache: block %d is released more often than it was taken", b))
	}
}

// CopyBlock copies a block in all layers: a sequence goes on from a half-full shared one. Inside torch.Do.
func (c *Cache) CopyBlock(from, to int32) {
	for i := range c.keys {
		torch.CacheCopyBlock(c.keys[i], c.values[i], from, to)
	}
}

// View is the attention of a packed batch over this cache: new keys and values are stored, then every row sees its
// sequence up to itself.
func (c *Cache) View(rows *torch.Rows) Attention { return cacheView{c, rows} }

type cacheView struct {
	c    *Cache
	rows *torch.Rows
}

func (v cacheView) Attend(layer int, q, k, val *torch.Tensor, rot Rotation, scale float64) *torch.Tensor {
	keys, values := v.c.keys[layer], v.c.values[layer]
	return torch.CacheAttention(torch.CacheAppend(keys, values, q, k, val, &rot.Rotary, v.rows), keys, values, v.rows, scale)
}

// Close frees the pool.
func (c *Cache) Close() {
	for i := range c.keys {
		c.keys[i].Free()
	}
	for i := range c.values {
		c.values[i].Free()
	}
	c.keys, c.values = nil, nil
}
