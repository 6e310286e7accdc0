package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"seadtrain/internal/convert"
	"seadtrain/internal/hfdir"
	"seadtrain/internal/precision"
	"seadtrain/internal/score"
	"seadtrain/model"
	"seadtrain/model/tokenizer"
	"seadtrain/torch"
)

func scoreCommand() *cli.Command {
	return &cli.Command{
		Name:      "score",
		Usage:     "log-probability of every token of given sequences",
		ArgsUsage: "MODEL FILE",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dtype", Value: "fp32", Usage: "`TYPE` of the weights in memory: auto, fp32 or bf16"},
			&cli.IntFlag{Name: "batch-tokens", Value: 4096, Usage: "`TOKENS` of a forward; a longer sequence stands alone"},
			&cli.IntFlag{Name: "threads", Usage: "`THREADS` of tensor work; 0: one per core"},
		},
		Description: `FILE is JSONL ("-": standard input): {"ids": [1, 2, …]}, which needs no tokenizer, or {"text": "…"}, in which special tokens
are recognised. Prints {"logprobs": [null, -1.5, …]} per line: entry i is the natural log-probability of token i after
those before it.

EXAMPLES
   echo '{"ids": [1, 5, 9]}' | seadtrain score embedded:nano -`,
		Action: func(c *cli.Context) error {
			if err := args(c, "MODEL", "FILE"); err != nil {
				return err
			}
			if n := c.Int("batch-tokens"); n < 1 || n > score.MaxBatchTokens {
				return usagef("--batch-tokens %d: want 1 to %d", n, score.MaxBatchTokens)
			}
			if err := torch.CheckThreads(c.Int("threads")); err != nil {
				return usagef("--threads %w", err)
			}
			dtype, _, err := precision.Choose(c.String("dtype"))
			if err != nil {
				return usagef("--%w", err)
			}
			return runScore(c.Context, c.Args().Get(0), c.Args().Get(1), dtype, c.Int("batch-tokens"), c.Int("threads"))
		},
	}
}

func runScore(ctx context.Context, ref, file string, dtype torch.DType, batchTokens, threads int) error {
	return readFile(file, func(r io.Reader) error {
		torch.SetNumThreads(threads)
		dir, err := hfdir.Resolve(ref)
		if err != nil {
			return err
		}
		m, err := model.Load(dir, model.Options{DType: dtype})
		if err != nil {
			return err
		}
		defer m.Close()
		var tok *tokenizer.Tokenizer
		open := func() (*tokenizer.Tokenizer, error) {
			if tok == nil {
				tok, err = tokenizer.Load(dir)
			}
			return tok, err
		}
		seqs, err := unlessStopped(ctx, func() ([][]int32, error) { return score.Read(r, file, m, open) })
		if err != nil {
			return err
		}
		return score.Write(ctx, stdout, m, seqs, batchTokens)
	})
}

func convertCommand() *cli.Command {
	return &cli.Command{
		Name:      "convert",
		Usage:     "a model from GGUF, or from another type or sharding, to a Hugging Face directory, and to GGUF",
		ArgsUsage: "SOURCE TARGET",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dtype", Usage: "`TYPE` of the result: fp32, bf16 or fp16, to GGUF also q8_0 (default: as it is; fp32 from and to GGUF)"},
			&cli.StringFlag{Name: "max-shard", Value: "0", Usage: "largest weight file, as bytes or with K, M or G; 0: one file"},
		},
		Description: `SOURCE is a .gguf file or a Hugging Face directory. TARGET is a directory, or a .gguf file if its name ends so; it must
not exist, and appears when it is complete.

EXAMPLES
   seadtrain convert SmolLM2-135M-Instruct.Q4_1.gguf SmolLM2-135M-Instruct
   seadtrain convert Qwen2.5-14B-Instruct small --dtype bf16 --max-shard 5G
   seadtrain convert runs/a/checkpoints/step-20 agent.gguf --dtype q8_0`,
		Action: func(c *cli.Context) error {
			if err := args(c, "SOURCE", "TARGET"); err != nil {
				return err
			}
			shard, err := parseBytes(c.String("max-shard"))
			if err != nil {
				return usagef("--max-shard %w", err)
			}
			src, dst := c.Args().Get(0), c.Args().Get(1)
			opts := convert.Options{DType: c.String("dtype"), MaxShard: shard}
			if err := opts.Validate(dst); err != nil {
				return usagef("convert: %w", err)
			}
			if err := convert.Convert(c.Context, src, dst, opts); err != nil {
				return err
			}
			_, err = fmt.Fprintln(stdout, "model:", dst)
			return err
		},
	}
}

// parseBytes reads a size such as "5G".
func parseBytes(s string) (int64, error) {
	number, factor := s, int64(1)
	if i := strings.IndexByte("KMG", (s + " ")[max(0, len(s)-1)]); i >= 0 {
		number, factor = s[:len(s)-1], int64(1)<<(10*(i+1))
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > 1<<62/factor {
		return 0, fmt.Errorf("%q: want a number of bytes, or one with K, M or G behind it", s)
	}
	return n * factor, nil
}
