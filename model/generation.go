package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// GenerationConfig holds the token ids of generation_config.json.
type GenerationConfig struct {
	BOS int   // -1: none
	EOS []int // any of them ends a generation; empty: none
	Pad int   // -1: none
}

// LoadGenerationConfig reads generation_config.json of a Hugging Face directory. Where the file or a key is absent, the
// id is cfg's: chat models list more end tokens here than in config.json.
func LoadGenerationConfig(dir string, cfg *Config) (GenerationConfig, error) {
	g := GenerationConfig{BOS: cfg.BOSTokenID, EOS: cfg.EOSTokenID, Pad: cfg.PadTokenID}
	path := filepath.Join(dir, "generation_config.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return g, fmt.Errorf("load generation config: %w", err)
	}
	var f struct {
		BOS tokenIDs `json:"bos_token_id"`
		EOS tokenIDs `json:"eos_token_id"`
		Pad tokenIDs `json:"pad_token_id"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return g, fmt.Errorf("%s: %w", path, jsonError(data, err))
	}
	for name, ids := range map[string]tokenIDs{"bos_token_id": f.BOS, "eos_token_id": f.EOS, "pad_token_id": f.Pad} {
		for _, id := range ids {
			if id < 0 || id >= cfg.VocabSize {
				return g, fmt.Errorf("%s: %s %d is outside the vocabulary of %d", path, name, id, cfg.VocabSize)
			}
		}
	}
	if f.BOS != nil {
		g.BOS = f.BOS.one()
	}
	if len(f.EOS) > 0 {
		g.EOS = f.EOS
	}
	if f.Pad != nil {
		g.Pad = f.Pad.one()
	}
	return g, nil
}
