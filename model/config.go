package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// The decoder families. The names are Hugging Face's model_type.
const (
	Qwen2 = "qwen2" // also Qwen2.5
	Qwen3 = "qwen3"
	Llama = "llama" // also SmolLM2
)

var architectures = map[string]string{
	Qwen2: "Qwen2ForCausalLM",
	Qwen3: "Qwen3ForCausalLM",
	Llama: "LlamaForCausalLM",
}

// Config is a decoder's config.json. Names and defaults are Hugging Face's; after reading, nothing is left to default:
// HeadDim, NumKeyValueHeads and Rope are always filled in.
type Config struct {
	ModelType             string
	VocabSize             int // rows of the embedding; may exceed the tokenizer's
	HiddenSize            int
	IntermediateSize      int
	NumHiddenLayers       int
	NumAttentionHeads     int
	NumKeyValueHeads      int
	HeadDim               int
	HiddenAct             string // only "silu"
	MaxPositionEmbeddings int
	RMSNormEps            float64
	TieWordEmbeddings     bool
	AttentionBias         bool // Qwen3, Llama: q, k, v and o have biases. Qwen2 ignores it: see QKVBias
	MLPBias               bool // Llama only
	InitializerRange      float64
	Rope                  Rope
	BOSTokenID            int    // -1: none
	EOSTokenID            []int  // empty: none
	PadTokenID            int    // -1: none
	DType                 string // of the weights as stored ("float32", "bfloat16", "float16"); empty: not stated

	// extra holds the keys this program does not use, so that writing the file back loses nothing.
	extra map[string]json.RawMessage
}

// QKVBias reports whether the q, k and v projections have biases. Qwen2 always has them, whatever its config says.
func (c *Config) QKVBias() bool { return c.ModelType == Qwen2 || c.AttentionBias }

// OBias reports whether the attention's output projection has a bias.
func (c *Config) OBias() bool { return c.ModelType != Qwen2 && c.AttentionBias }

// QKNorm reports whether queries and keys are RMS-normalised per head before rotation.
func (c *Config) QKNorm() bool { return c.ModelType == Qwen3 }

// configFile is the JSON form. Pointers tell an absent key from a zero.
type configFile struct {
	ModelType             *string         `json:"model_type"`
	Architectures         []string        `json:"architectures"`
	VocabSize             *int            `json:"vocab_size"`
	HiddenSize            *int            `json:"hidden_size"`
	IntermediateSize      *int            `json:"intermediate_size"`
	NumHiddenLayers       *int            `json:"num_hidden_layers"`
	NumAttentionHeads     *int            `json:"num_attention_heads"`
	NumKeyValueHeads      *int            `json:"num_key_value_heads"`
	HeadDim               *int            `json:"head_dim"`
	HiddenAct             *string         `json:"hidden_act"`
	MaxPositionEmbeddings *int            `json:"max_position_embeddings"`
	RMSNormEps            *float64        `json:"rms_norm_eps"`
	TieWordEmbeddings     *bool           `json:"tie_word_embeddings"`
	AttentionBias         *bool           `json:"attention_bias"`
	MLPBias               *bool           `json:"mlp_bias"`
	InitializerRange      *float64        `json:"initializer_range"`
	RopeTheta             *float64        `json:"rope_theta"`
	RopeScaling           *ropeFile       `json:"rope_scaling"`
	RopeParameters        *ropeFile       `json:"rope_parameters"`
	PartialRotaryFactor   *float64        `json:"partial_rotary_factor"`
	BOSTokenID            tokenIDs        `json:"bos_token_id"`
	EOSTokenID            tokenIDs        `json:"eos_token_id"`
	PadTokenID            tokenIDs        `json:"pad_token_id"`
	TorchDType            *string         `json:"torch_dtype"`
	DType                 *string         `json:"dtype"`
	UseSlidingWindow      *bool           `json:"use_sliding_window"`
	LayerTypes            []string        `json:"layer_types"`
	AttentionDropout      *float64        `json:"attention_dropout"`
	QuantizationConfig    json.RawMessage `json:"quantization_config"`
}

// tokenIDs reads a token id, a list of them, or null.
type tokenIDs []int

func (t *tokenIDs) UnmarshalJSON(b []byte) error {
	*t = nil
	if string(b) == "null" {
		return nil
	}
	var one int
	if json.Unmarshal(b, &one) == nil {
		*t = tokenIDs{one}
		return nil
	}
	var many []int
	if err := json.Unmarshal(b, &many); err != nil {
		return fmt.Errorf("a token id is %s: want a whole number, a list of them, or null", b)
	}
	*t = many
	return nil
}

// LoadConfig reads and validates config.json of a Hugging Face directory, or the file itself.
func LoadConfig(path string) (*Config, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, "config.json")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load config: %w", err)
	}
	c, err := ParseConfig(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseConfig reads the text of a config.json and validates it.
func ParseConfig(data []byte) (*Config, error) {
	var f configFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, jsonError(data, err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, jsonError(data, err)
	}
	if f.ModelType == nil {
		return nil, errors.New("model_type is missing: is this a Hugging Face config.json?")
	}
	if _, ok := architectures[*f.ModelType]; !ok {
		return nil, fmt.Errorf("model_type %q is not supported: want %q, %q or %q", *f.ModelType, Qwen2, Qwen3, Llama)
	}
	c, err := f.config()
	if err != nil {
		return nil, err
	}
	for k := range c.known() {
		delete(raw, k)
	}
	for _, k := range droppedKeys {
		delete(raw, k)
	}
	c.extra = raw
	return c, c.Validate()
}

// config fills in the family's defaults and refuses what the decoder does not compute.
func (f *configFile) config() (*Config, error) {
	var errs []error
	need := func(name string, p *int) int {
		if p == nil {
			errs = append(errs, fmt.Errorf("%s is missing", name))
			return 1
		}
		return *p
	}
	c := &Config{
		ModelType:         *f.ModelType,
		VocabSize:         need("vocab_size", f.VocabSize),
		HiddenSize:        need("hidden_size", f.HiddenSize),
		IntermediateSize:  need("intermediate_size", f.IntermediateSize),
		NumHiddenLayers:   need("num_hidden_layers", f.NumHiddenLayers),
		NumAttentionHeads: need("num_attention_heads", f.NumAttentionHeads),
		HiddenAct:         or(f.HiddenAct, "silu"),
		RMSNormEps:        or(f.RMSNormEps, 1e-6),
		TieWordEmbeddings: or(f.TieWordEmbeddings, false),
		AttentionBias:     or(f.AttentionBias, false),
		MLPBias:           or(f.MLPBias, false),
		InitializerRange:  or(f.InitializerRange, 0.02),
		BOSTokenID:        f.BOSTokenID.one(),
		EOSTokenID:        f.EOSTokenID,
		PadTokenID:        f.PadTokenID.one(),
		DType:             or(f.DType, or(f.TorchDType, "")),
	}
	c.NumKeyValueHeads = or(f.NumKeyValueHeads, c.NumAttentionHeads)
	if f.NumKeyValueHeads == nil && c.ModelType != Llama {
		need("num_key_value_heads", nil) // the classes' own default, 32, fits almost no model
	}
	c.MaxPositionEmbeddings = or(f.MaxPositionEmbeddings, map[string]int{Qwen2: 32768, Qwen3: 32768, Llama: 2048}[c.ModelType])
	switch {
	case f.HeadDim != nil:
		c.HeadDim = *f.HeadDim
	case c.ModelType == Qwen3:
		c.HeadDim = 128 // Qwen3Config's own default, not hidden/heads
	case c.NumAttentionHeads > 0:
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
	}
	rope, err := f.rope(c.MaxPositionEmbeddings)
	errs = append(errs, err)
	c.Rope = rope
	errs = append(errs, f.refusals(c)...)
	return c, errors.Join(errs...)
}

// refusals lists what a config asks for and the decoder does not do.
func (f *configFile) refusals(c *Config) (errs []error) {
	if len(f.Architectures) > 0 && !slices.Contains(f.Architectures, architectures[c.ModelType]) {
		errs = append(errs, fmt.Errorf("architectures is %q: want %q for model_type %q", f.Architectures, architectures[c.ModelType], c.ModelType))
	}
	if or(f.UseSlidingWindow, false) {
		errs = append(errs, errors.New("use_sliding_window is true: sliding-window attention is not supported; set it to false (attention is then full)"))
	}
	for i, t := range f.LayerTypes {
		if t != "full_attention" {
			errs = append(errs, fmt.Errorf("layer_types[%d] is %q: only \"full_attention\" is supported", i, t))
			break
		}
	}
	if d := or(f.AttentionDropout, 0); d != 0 {
		errs = append(errs, fmt.Errorf("attention_dropout is %v: dropout is not supported, want 0", d))
	}
	if q := string(f.QuantizationConfig); q != "" && q != "null" {
		errs = append(errs, errors.New("quantization_config is set: quantised Hugging Face checkpoints are not supported; use the unquantised one, or GGUF"))
	}
	if c.ModelType == Llama && c.HeadDim*c.NumAttentionHeads != c.HiddenSize && f.HeadDim == nil {
		errs = append(errs, fmt.Errorf("hidden_size %d is not a multiple of num_attention_heads %d, and head_dim is not given", c.HiddenSize, c.NumAttentionHeads))
	}
	return errs
}

// Validate reports everything wrong with the config at once. It changes nothing.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if _, ok := architectures[c.ModelType]; !ok {
		bad("model_type %q is not supported: want %q, %q or %q", c.ModelType, Qwen2, Qwen3, Llama)
	}
	const limit = 1 << 26 // far above any model; keeps products of two sizes inside an int64
	for _, f := range []struct {
		name string
		v    int
	}{
		{"vocab_size", c.VocabSize}, {"hidden_size", c.HiddenSize}, {"intermediate_size", c.IntermediateSize},
		{"num_hidden_layers", c.NumHiddenLayers}, {"num_attention_heads", c.NumAttentionHeads},
		{"num_key_value_heads", c.NumKeyValueHeads}, {"head_dim", c.HeadDim}, {"max_position_embeddings", c.MaxPositionEmbeddings},
	} {
		if f.v < 1 || f.v > limit {
			bad("%s is %d: want 1 to %d", f.name, f.v, limit)
		}
	}
	if c.NumKeyValueHeads > 0 && c.NumAttentionHeads%c.NumKeyValueHeads != 0 {
		bad("num_attention_heads %d is not a multiple of num_key_value_heads %d", c.NumAttentionHeads, c.NumKeyValueHeads)
	}
	if c.HeadDim%2 != 0 {
		bad("head_dim is %d: rotary embeddings need an even one", c.HeadDim)
	}
	if c.HiddenAct != "silu" {
		bad("hidden_act is %q: only \"silu\" is supported", c.HiddenAct)
	}
	if !(c.RMSNormEps > 0 && c.RMSNormEps < 1) {
		bad("rms_norm_eps is %v: want a small positive number such as 1e-6", c.RMSNormEps)
	}
	if c.MLPBias && c.ModelType != Llama {
		bad("mlp_bias is true: only model_type %q has MLP biases", Llama)
	}
	if c.InitializerRange < 0 || c.InitializerRange > 1 {
		bad("initializer_range is %v: want 0 to 1", c.InitializerRange)
	}
	for _, id := range c.EOSTokenID {
		if id < 0 || id >= c.VocabSize {
			bad("eos_token_id %d is outside the vocabulary of %d", id, c.VocabSize)
		}
	}
	switch c.DType {
	case "", "float32", "bfloat16", "float16":
	default:
		bad("dtype is %q: want float32, bfloat16 or float16", c.DType)
	}
	errs = append(errs, c.Rope.validate(c.MaxPositionEmbeddings))
	return errors.Join(errs...)
}

func or[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

func (t tokenIDs) one() int {
	if len(t) == 0 {
		return -1
	}
	return t[0]
}

// jsonError names the line, and the field where encoding/json knows it.
func jsonError(data []byte, err error) error {
	line := func(off int64) int { return 1 + bytes.Count(data[:min(off, int64(len(data)))], []byte("\n")) }
	var syn *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syn):
		return fmt.Errorf("line %d: not JSON: %w", line(syn.Offset), err)
	case errors.As(err, &typ):
		return fmt.Errorf("line %d: %s is a %s: want %s", line(typ.Offset), typ.Field, typ.Value, typ.Type)
	}
	return err
}
