package model

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// droppedKeys are other spellings of what known writes.
var droppedKeys = []string{"torch_dtype", "dtype", "rope_parameters", "rope_scaling", "partial_rotary_factor", "transformers_version"}

// known is the config under Hugging Face's keys, in the spelling that both its version 4 and 5 read.
func (c *Config) known() map[string]any {
	m := map[string]any{
		"model_type": c.ModelType, "architectures": []string{architectures[c.ModelType]},
		"vocab_size": c.VocabSize, "hidden_size": c.HiddenSize, "intermediate_size": c.IntermediateSize,
		"num_hidden_layers": c.NumHiddenLayers, "num_attention_heads": c.NumAttentionHeads,
		"num_key_value_heads": c.NumKeyValueHeads, "head_dim": c.HeadDim, "hidden_act": c.HiddenAct,
		"max_position_embeddings": c.MaxPositionEmbeddings, "rms_norm_eps": float(c.RMSNormEps),
		"tie_word_embeddings": c.TieWordEmbeddings, "initializer_range": float(c.InitializerRange),
		"rope_theta": float(c.Rope.Theta), "bos_token_id": nullable(c.BOSTokenID), "pad_token_id": nullable(c.PadTokenID),
	}
	switch len(c.EOSTokenID) {
	case 0:
		m["eos_token_id"] = nil
	case 1:
		m["eos_token_id"] = c.EOSTokenID[0]
	default:
		m["eos_token_id"] = c.EOSTokenID
	}
	if c.ModelType != Qwen2 {
		m["attention_bias"] = c.AttentionBias
	}
	if c.ModelType == Llama {
		m["mlp_bias"] = c.MLPBias
	}
	if c.DType != "" {
		m["torch_dtype"] = c.DType
	}
	if c.Rope.Type != RopeDefault {
		m["rope_scaling"] = c.Rope.file(false)
	}
	m["rope_parameters"] = c.Rope.file(true)
	return m
}

// JSON is the text of config.json: keys sorted, always the same bytes for the same config.
func (c *Config) JSON() []byte {
	m := c.known()
	for k, v := range c.extra {
		if _, ok := m[k]; !ok {
			m[k] = v
		}
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic(err) // only numbers, strings and JSON that was parsed before
	}
	return append(b, '\n')
}

// Clone returns a copy that shares nothing mutable.
func (c *Config) Clone() *Config {
	d := *c
	d.EOSTokenID = slices.Clone(c.EOSTokenID)
	d.extra = maps.Clone(c.extra)
	return &d
}

// float is a number that keeps its decimal point: Python readers tell 1e6 the float from 1000000 the int.
type float float64

func (f float) MarshalJSON() ([]byte, error) {
	b := strconv.AppendFloat(nil, float64(f), 'g', -1, 64)
	if !bytes.ContainsAny(b, ".e") {
		b = append(b, ".0"...)
	}
	return b, nil
}

func nullable(id int) any {
	if id < 0 {
		return nil
	}
	return id
}
