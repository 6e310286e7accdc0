package train

import (
	"math/rand/v2"
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

func BenchmarkNanoSFTStep(b *testing.B) {
	m, err := model.Init(nanoConfig(), model.Options{}, 1)
	if err != nil {
		b.Fatal(err)
	}
	samples := randomSamples(24, 380, 1280)
	back, err := NewBackward(m, nil, KeepAll, 1024)
	if err != nil {
		b.Fatal(err)
	}
	tokens := 0
	for b.Loop() {
		for _, batch := range Pack(samples, 8192) {
			tokens += len(batch.IDs)
			if err := torch.Try(func() error { return back.Accumulate(batch, crossEntropy(batch, 1000, &SFTMetrics{})) }); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
}
