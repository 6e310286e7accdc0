// Package convert turns models of one file format into another, tensor by tensor: memory stays small whatever the model.
package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"seadtrain/internal/rundir"
	"seadtrain/model"
	"seadtrain/model/gguf"
	"seadtrain/model/safetensors"
	"seadtrain/model/tokenizer"
)

// Options of a conversion.
type Options struct {
	// DType of the result: "fp32", "bf16", "fp16", to GGUF also "q8_0"; empty: a Hugging Face directory's own, fp32 from
	// and to GGUF.
	DType string
	// MaxShard bounds a weight file, in bytes. 0: one file.
	MaxShard int64
}

var types = map[string]safetensors.DType{"fp32": safetensors.F32, "bf16": safetensors.BF16, "fp16": safetensors.F16}
var configNames = map[safetensors.DType]string{safetensors.F32: "float32", safetensors.BF16: "bfloat16", safetensors.F16: "float16"}

// rows of a tensor that are converted at once.
const blockRows = 1024

// Validate reports what is wrong with the options for a target.
func (o Options) Validate(dst string) error {
	if strings.HasSuffix(dst, ".gguf") {
		if _, ok := ggufTypes[o.DType]; !ok {
			return fmt.Errorf("dtype %q: want fp32, bf16, fp16 or q8_0", o.DType)
		}
		if o.MaxShard != 0 {
			return errors.New("max-shard: a GGUF file has no shards")
		}
	} else if _, ok := types[o.DType]; !ok && o.DType != "" {
		return fmt.Errorf("dtype %q: want fp32, bf16 or fp16", o.DType)
	}
	return nil
}

// Convert makes the Hugging Face directory dst of src, a .gguf file or a Hugging Face directory; or, if dst ends with
// .gguf, that file of a Hugging Face directory. dst must not exist; it appears when it is complete. When ctx is cancelled
// nothing is left of it and the error is ctx's.
func Convert(ctx context.Context, src, dst string, o Options) (err error) {
	if err := o.Validate(dst); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	if _, err := os.Lstat(dst); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("convert: %s exists already", dst)
	}
	if strings.HasSuffix(dst, ".gguf") {
		return toGGUF(ctx, src, dst, o)
	}
	parent := filepath.Dir(filepath.Clean(dst))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	tmp, err := os.MkdirTemp(parent, ".convert-*.tmp")
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("convert %s: %w", src, err), os.RemoveAll(tmp))
		}
	}()
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if strings.HasSuffix(src, ".gguf") {
		err = fromGGUF(ctx, src, tmp, o)
	} else {
		err = fromHF(ctx, src, tmp, o)
	}
	if err != nil {
		return err
	}
	return rundir.Replace(tmp, dst)
}

func fromGGUF(ctx context.Context, src, dst string, o Options) error {
	f, err := gguf.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	weights, err := f.Weights()
	if err != nil {
		return err
	}
	dtype := safetensors.F32 // quantised weights have no type of their own to keep
	if o.DType != "" {
		dtype = types[o.DType]
	}
	var sources []safetensors.Source
	for i := range weights {
		w := &weights[i]
		sources = append(sources, source(ctx, w.Name, w.Shape, dtype, w.Rows))
	}
	text, err := f.ConfigJSON()
	if err != nil {
		return err
	}
	if err := writeConfig(text, dst, dtype); err != nil {
		return err
	}
	for name, make := range map[string]func() ([]byte, error){
		"tokenizer.json": f.TokenizerJSON, "tokenizer_config.json": f.TokenizerConfigJSON, "generation_config.json": f.GenerationConfigJSON,
	} {
		text, err := make()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dst, name), text, 0o644); err != nil {
			return err
		}
	}
	return safetensors.WriteDir(dst, sources, o.MaxShard)
}

func fromHF(ctx context.Context, src, dst string, o Options) error {
	set, err := safetensors.Open(src)
	if err != nil {
		return err
	}
	defer set.Close()
	text, err := os.ReadFile(filepath.Join(src, "config.json"))
	if err != nil {
		return err
	}
	sources := set.Sources()
	var dtype safetensors.DType
	if o.DType != "" {
		dtype = types[o.DType]
	}
	for i, s := range sources {
		t := set.Get(s.Name)
		if dtype == "" || t.DType == dtype {
			sources[i].Write = func(w io.Writer) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return s.Write(w)
			}
		} else {
			sources[i] = source(ctx, s.Name, s.Shape, dtype, func(lo, hi int) ([]float32, error) {
				data, err := t.Rows(lo, hi)
				if err != nil {
					return nil, err
				}
				return safetensors.Float32s(t.DType, data)
			})
		}
	}
	if err := writeConfig(text, dst, dtype); err != nil {
		return err
	}
	if err := tokenizer.CopyFiles(dst, src); err != nil {
		return err
	}
	return safetensors.WriteDir(dst, sources, o.MaxShard)
}

// writeConfig writes config.json with the new type of the weights; an empty one leaves it as it is.
func writeConfig(text []byte, dst string, dtype safetensors.DType) error {
	c, err := model.ParseConfig(text)
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	if dtype != "" {
		c.DType = configNames[dtype]
		text = c.JSON()
	}
	return os.WriteFile(filepath.Join(dst, "config.json"), text, 0o644)
}

// source converts a tensor block by block, until ctx ends.
func source(ctx context.Context, name string, shape []int, dtype safetensors.DType, rows func(lo, hi int) ([]float32, error)) safetensors.Source {
	return safetensors.Source{Name: name, DType: dtype, Shape: shape, Write: func(w io.Writer) error {
		var buf []byte
		for lo := 0; lo < shape[0]; lo += blockRows {
			if err := ctx.Err(); err != nil {
				return err
			}
			v, err := rows(lo, min(lo+blockRows, shape[0]))
			if err != nil {
				return fmt.Errorf("tensor %q: %w", name, err)
			}
			if buf, err = safetensors.AppendFloat32s(buf[:0], dtype, v); err != nil {
				return fmt.Errorf("tensor %q: %w", name, err)
			}
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
		return nil
	}}
}
