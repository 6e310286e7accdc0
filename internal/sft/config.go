package sft

import (
	"errors"
	"fmt"

	"seadtrain/internal/precision"
	"seadtrain/torch"
	"seadtrain/train"
)

// Config of a supervised fine-tuning run.
type Config struct {
	// Model is a Hugging Face directory, or "embedded:nano". Without weight files in it, training starts from random
	// weights drawn from train.seed. Empty is refused.
	Model string `toml:"model"`
	// Data is a JSONL file of conversations. Empty is refused.
	Data string `toml:"data"`
	// EvalData is a JSONL file for evaluation. Empty: the last eval_share of the data.
	EvalData string `toml:"eval_data"`
	// EvalShare is the share of the conversations, from the file's end, that is kept from training, in [0, 0.5]. 0: none.
	EvalShare float64 `toml:"eval_share"`
	// MaxTokens is the longest conversation; longer ones are an error. 0: the model's context.
	MaxTokens int `toml:"max_tokens"`
	// DType of the weights in memory: "auto" (by processor), "fp32" or "bf16"; the optimizer's are always fp32.
	DType string `toml:"dtype"`
	// SaveDType of the finished model: "auto" (as in memory), "fp32" or "bf16".
	SaveDType string `toml:"save_dtype"`
	// Threads of tensor work. 0: one per core.
	Threads int `toml:"threads"`
	// EvalEvery optimizer steps the evaluation loss is computed. 0: at the end only.
	EvalEvery int `toml:"eval_every"`
	// CheckpointEvery optimizer steps a checkpoint is written. 0: when stopped and at the end only.
	CheckpointEvery int `toml:"checkpoint_every"`
	// KeepLast checkpoints are kept. 0: all.
	KeepLast int             `toml:"keep_last"`
	Train    train.SFTConfig `toml:"train"`
}

// Default suits a small model.
func Default() Config {
	return Config{EvalShare: 0.01, DType: "auto", SaveDType: "auto", EvalEvery: 100, CheckpointEvery: 100, KeepLast: 2, Train: train.DefaultSFT()}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Model != "", "model: missing: want a Hugging Face directory")
	check(c.Data != "", "data: missing: want a JSONL file of conversations")
	check(c.EvalShare >= 0 && c.EvalShare <= 0.5, "eval_share is %v: want 0 to 0.5", c.EvalShare)
	check(c.MaxTokens >= 0, "max_tokens is %d: want 0 (the model's context) or more", c.MaxTokens)
	if err := torch.CheckThreads(c.Threads); err != nil {
		errs = append(errs, fmt.Errorf("threads is %w", err))
	}
	check(c.EvalEvery >= 0, "eval_every is %d: want 0 (at the end) or more", c.EvalEvery)
	check(c.CheckpointEvery >= 0, "checkpoint_every is %d: want 0 (at the end) or more", c.CheckpointEvery)
	check(c.KeepLast >= 0, "keep_last is %d: want 0 (all) or more", c.KeepLast)
	for _, d := range [][2]string{{"dtype", c.DType}, {"save_dtype", c.SaveDType}} {
		if err := precision.Check(d[1]); err != nil {
			errs = append(errs, fmt.Errorf("%s is %w", d[0], err))
		}
	}
	return errors.Join(append(errs, c.Train.Validate())...)
}
