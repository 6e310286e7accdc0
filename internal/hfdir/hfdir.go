// Package hfdir opens and writes a model with everything that belongs to it: weights, tokenizer and chat template in one
// Hugging Face directory.
package hfdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"seadtrain/model"
	"seadtrain/model/chat"
	"seadtrain/model/safetensors"
	"seadtrain/model/tokenizer"
	"seadtrain/torch"
)

// Bundle is an open directory.
type Bundle struct {
	Dir       string
	Model     *model.Model
	Tokenizer *tokenizer.Tokenizer
	Chat      *chat.Template
}

// Open reads a directory, or an embedded model ("embedded:nano").
func Open(ref string, o model.Options) (*Bundle, error) {
	return open(ref, func(dir string) (*model.Model, error) {
		if !HasWeights(dir) {
			return nil, fmt.Errorf("model %s: no %s and no %s: it has no weights", ref, safetensors.SingleFile, safetensors.IndexFile)
		}
		return model.Load(dir, o)
	})
}

// OpenOrInit is Open, but a directory without weights gives random ones, by seed.
func OpenOrInit(ref string, o model.Options, seed uint64) (*Bundle, error) {
	return open(ref, func(dir string) (*model.Model, error) {
		if HasWeights(dir) {
			return model.Load(dir, o)
		}
		c, err := model.LoadConfig(dir)
		if err != nil {
			return nil, err
		}
		return model.Init(c, o, seed)
	})
}

func open(ref string, load func(dir string) (*model.Model, error)) (*Bundle, error) {
	dir, err := Resolve(ref)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Dir: dir}
	if b.Tokenizer, err = tokenizer.Load(dir); err != nil {
		return nil, err
	}
	if b.Chat, err = chat.Load(dir, b.Tokenizer); err == nil {
		b.Model, err = load(dir)
	}
	if err == nil && b.Tokenizer.VocabSize() > b.Model.Config.VocabSize {
		err = fmt.Errorf("model %s: the tokenizer has %d tokens, the model %d", ref, b.Tokenizer.VocabSize(), b.Model.Config.VocabSize)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close frees what is open.
func (b *Bundle) Close() {
	if b.Model != nil {
		b.Model.Close()
	}
	b.Tokenizer.Close()
}

// HasWeights reports whether a directory has a model in it, and not its config alone.
func HasWeights(dir string) bool {
	for _, name := range []string{safetensors.SingleFile, safetensors.IndexFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			return true
		}
	}
	return false
}

// Save writes the model as it is now, with the files of tokenizer and chat template, into a directory.
func (b *Bundle) Save(dir string, o model.SaveOptions) error {
	if err := b.Model.Save(dir, o); err != nil {
		return err
	}
	return tokenizer.CopyFiles(dir, b.Dir)
}

// FileType is the type for a setting of saved weights: "fp32", "bf16", or "auto" for the type in memory.
func FileType(name string, m *model.Model) torch.DType {
	switch name {
	case "fp32":
		return torch.F32
	case "bf16":
		return torch.BF16
	}
	return m.DType
}
