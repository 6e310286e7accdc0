package convert

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"seadtrain/model"
	"seadtrain/model/gguf"
	"seadtrain/model/safetensors"
	"seadtrain/model/tokenizer"
)

// Options of GGUFToHF.
type Options struct {
	DType    safetensors.DType // of the written weights; "" is F32, which loses nothing
	MaxShard int64             // bytes per file; 0: one file
}

var dtypeNames = map[safetensors.DType]string{safetensors.F32: "float32", safetensors.BF16: "bfloat16", safetensors.F16: "float16"}

// GGUFToHF writes the model of a GGUF file as a Hugging Face directory: config.json, generation_config.json, the weights,
// dequantised, and the tokenizer with its chat template. dir must not exist.
func GGUFToHF(src, dir string, o Options) error {
	if o.DType == "" {
		o.DType = safetensors.F32
	}
	if dtypeNames[o.DType] == "" {
		return fmt.Errorf("convert: dtype %q: want F32, BF16 or F16", o.DType)
	}
	f, err := gguf.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	return newDir(dir, func(tmp string) error {
		files, err := hfFiles(f, src, o.DType)
		if err != nil {
			return err
		}
		for name, data := range files {
			if err := os.WriteFile(filepath.Join(tmp, name), data, 0o644); err != nil {
				return err
			}
		}
		tok, err := tokenizer.Load(tmp) // what we wrote must load
		if err != nil {
			return err
		}
		tok.Close()
		weights, err := f.Weights()
		if err != nil {
			return err
		}
		var sources []safetensors.Source
		for _, w := range weights {
			sources = append(sources, safetensors.Source{Name: w.Name, DType: o.DType, Shape: w.Shape, Write: func(out io.Writer) error {
				return stream(out, w, o.DType)
			}})
		}
		return safetensors.WriteDir(tmp, sources, o.MaxShard)
	})
}

// stream writes a weight in pieces of whole rows, about a megabyte each.
func stream(out io.Writer, w gguf.Weight, d safetensors.DType) error {
	step := w.Shape[0]
	if len(w.Shape) > 1 {
		step = max(1, 1<<18/max(1, w.Shape[1]))
	}
	var buf []byte
	for lo := 0; lo < w.Shape[0]; lo += step {
		v, err := w.Rows(lo, min(lo+step, w.Shape[0]))
		if err != nil {
			return err
		}
		if buf, err = safetensors.AppendFloat32s(buf[:0], d, v); err != nil {
			return err
		}
		if _, err := out.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// hfFiles are the small files of the directory.
func hfFiles(f *gguf.File, src string, d safetensors.DType) (map[string][]byte, error) {
	text, err := f.ConfigJSON()
	if err != nil {
		return nil, err
	}
	c, err := model.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src, err)
	}
	c.DType = dtypeNames[d]
	files := map[string][]byte{"config.json": c.JSON()}
	if files["tokenizer.json"], err = f.TokenizerJSON(); err != nil {
		return nil, err
	}
	if files["tokenizer_config.json"], err = f.TokenizerConfigJSON(); err != nil {
		return nil, err
	}
	gen := map[string]any{}
	if c.BOSTokenID >= 0 {
		gen["bos_token_id"] = c.BOSTokenID
	}
	if len(c.EOSTokenID) > 0 {
		gen["eos_token_id"] = c.EOSTokenID[0]
	}
	if c.PadTokenID >= 0 {
		gen["pad_token_id"] = c.PadTokenID
	}
	files["generation_config.json"], err = json.MarshalIndent(gen, "", "  ")
	return files, err
}

// newDir makes dir through a temporary directory beside it, which is removed if fill fails.
func newDir(dir string, fill func(tmp string) error) (err error) {
	dir = strings.TrimRight(dir, string(filepath.Separator))
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("convert: %s exists already: choose a new name", dir)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".tmp-")
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(tmp)
		}
	}()
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := fill(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}
