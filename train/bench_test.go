package train

import (
	"math/rand/v2"
	"syscall"
	"testing"

	"seadtrain/model"
	"seadtrain/torch"
)

// nanoConfig is the shape of the shipped nano model.
func nanoConfig() *model.Config {
	c, err := model.ParseConfig([]byte(`{"model_type":"qwen2","vocab_size":1280,"hidden_size":128,"intermediate_size":352,
		"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":4,"max_position_embeddings":2048,
		"tie_word_embeddings":true,"rope_theta":10000.0,"rms_norm_eps":1e-6}`))
	if err != nil {
		panic(err)
	}
	return c
}

// randomSamples alternates 35 given and 35 trained tokens, as turns do.
func randomSamples(n, length, vocab int) []*Sample {
	r := rand.New(rand.NewPCG(1, 2))
	var out []*Sample
	for range n {
		s := &Sample{ID: "x", Temperature: 1}
		for i := range length {
			s.Tokens = append(s.Tokens, int32(r.IntN(vocab)))
			s.Loss = append(s.Loss, i > 20 && i/35%2 == 0)
			s.LogProbs = append(s.LogProbs, -7)
		}
		out = append(out, s)
	}
	return out
}

// cpu is the processor time of all threads in seconds: beside other work it says more than the clock.
func cpu() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkNanoUpdate is forward and backward of an optimizer step of the nano model.
func BenchmarkNanoUpdate(b *testing.B) {
	m, err := model.Init(nanoConfig(), model.Options{}, 1)
	if err != nil {
		b.Fatal(err)
	}
	samples := randomSamples(24, 380, 1280)
	for _, r := range []Recompute{KeepAll, Layer} {
		b.Run(string(r), func(b *testing.B) {
			back, err := NewBackward(m, nil, r, 1024)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = torch.Do(back.Close) }()
			tokens, start := 0, cpu()
			for b.Loop() {
				for _, batch := range Pack(samples, 8192) {
					tokens += len(batch.IDs)
					if err := torch.Try(func() error { return back.Accumulate(batch, crossEntropy(batch, 1000, &SFTMetrics{})) }); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
			b.ReportMetric(float64(tokens)/(cpu()-start), "tokens/cpu-s")
		})
	}
}
