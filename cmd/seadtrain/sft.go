package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/urfave/cli/v2"

	"seadtrain/internal/config"
	"seadtrain/internal/sft"
)

func sftCommand() *cli.Command {
	// Flags that stand for a config key.
	keys := []struct{ flag, key, usage string }{
		{"model", "model", "Hugging Face `DIRECTORY`; without weights in it they begin random"},
		{"data", "data", "JSONL `FILE` of conversations"},
		{"eval-data", "eval_data", "JSONL `FILE` for the evaluation loss"},
		{"eval-share", "eval_share", "without --eval-data: `SHARE` of the data, from its end, kept for it"},
		{"max-tokens", "max_tokens", "longest conversation in `TOKENS`"},
		{"dtype", "dtype", "`TYPE` of the weights in memory: auto, fp32 or bf16"},
		{"save-dtype", "save_dtype", "`TYPE` of the finished model: auto, fp32 or bf16"},
		{"threads", "threads", "`THREADS` of tensor work; 0: one per core"},
		{"lr", "train.optimizer.lr", "peak learning `RATE`"},
		{"epochs", "train.epochs", "`PASSES` over the data"},
		{"batch-tokens", "train.batch_tokens", "`TOKENS` of an optimizer step"},
		{"seed", "train.seed", "`SEED` of the order of the data and of random initial weights"},
		{"checkpoint-every", "checkpoint_every", "`STEPS` between checkpoints"},
		{"eval-every", "eval_every", "`STEPS` between evaluations"},
	}
	flags := []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "TOML `FILE` with settings; flags come after it"},
		&cli.StringFlag{Name: "out", Usage: "run `DIRECTORY`, continued if it has a checkpoint; the finished model is its folder model"},
		setFlag(), jsonFlag(),
	}
	for _, k := range keys {
		flags = append(flags, &cli.StringFlag{Name: k.flag, Usage: k.usage})
	}
	return &cli.Command{
		Name:  "sft",
		Usage: "supervised fine-tuning on conversations",
		Flags: flags,
		Description: `Data is JSONL, a conversation a line: {"messages": [{"role": "system"|"user"|"assistant", "content": "…", "loss": true?}, …]}.
Loss is on the assistant's turns unless "loss" says otherwise.

EXAMPLES
   seadtrain sft --model Qwen2.5-0.5B-Instruct --data chats.jsonl --out runs/sft --lr 1e-5
   seadtrain sft --config sft.toml --out runs/sft --set train.optimizer.schedule=constant`,
		Action: func(c *cli.Context) error {
			if err := args(c); err != nil {
				return err
			}
			if c.String("out") == "" {
				return usagef("sft: --out is missing")
			}
			var set []config.Flag
			for _, k := range keys {
				if c.IsSet(k.flag) {
					set = append(set, config.Flag{Name: k.flag, Key: k.key, Value: c.String(k.flag)})
				}
			}
			cfg := sft.Default()
			if err := config.Load(c.String("config"), c.StringSlice("set"), &cfg, set...); err != nil {
				return usage(err)
			}
			res, err := sft.Run(c.Context, cfg, c.String("out"), stderr)
			if err != nil {
				tellHowToGoOn(c, c.String("out"))
				return err
			}
			return show(c, printed{res, sftSummary(res)})
		},
	}
}

func sftSummary(r *sft.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d steps", r.Steps)
	if !math.IsNaN(r.EvalLoss) {
		fmt.Fprintf(&b, ", evaluation loss %.4f", r.EvalLoss)
	}
	fmt.Fprintf(&b, "\nmodel: %s\n", r.Model)
	return b.String()
}
