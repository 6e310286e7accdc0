package train

import (
	"slices"
	"testing"
	"time"

	"seadtrain/model"
	"seadtrain/torch"
)

// The numbers of Qwen2.5-14B-Instruct's config.json.
const qwen14B = `{"model_type":"qwen2","architectures":["Qwen2ForCausalLM"],"hidden_size":5120,"intermediate_size":13824,"num_hidden_layers":48,
	"num_attention_heads":40,"num_key_value_heads":8,"vocab_size":152064,"max_position_embeddings":32768,"rope_theta":1000000.0,
	"rms_norm_eps":1e-6,"tie_word_embeddings":false,"torch_dtype":"bfloat16"}`

// A 14B model takes a whole training step without memory, alone and as one of four ranks.
func TestQwen14BOnMeta(t *testing.T) {
	c, err := model.ParseConfig([]byte(qwen14B))
	if err != nil {
		t.Fatal(err)
	}
	batch := Pack(randomSamples(4, 2000, c.VocabSize), 1<<20)[0]
	ones := func(_ int, rows []torch.Stats) (a, b []float64, err error) {
		return make([]float64, len(rows)), make([]float64, len(rows)), nil
	}
	for _, x := range []struct {
		ranks, params int64
		qkv, down     []int64
	}{
		// embedding and head 2·152064·5120; a layer q,o 2·5120², k,v 2·1024·5120, biases 7168, MLP 3·13824·5120, norms 2·5120; norm 5120
		{1, 2*152064*5120 + 48*(2*5120*5120+2*1024*5120+7168+3*13824*5120+2*5120) + 5120, []int64{7168, 5120}, []int64{5120, 13824}},
		{4, 2*38016*5120 + 48*(2*1280*5120+2*256*5120+1792+3*3456*5120+2*5120) + 5120, []int64{1792, 5120}, []int64{5120, 3456}},
	} {
		start, rss := time.Now(), memory(t, "VmRSS")
		m, err := model.Init(c, model.Options{DType: torch.BF16, Device: torch.Meta, TP: torch.Dry(1%int(x.ranks), int(x.ranks))}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if x.ranks == 1 && m.NumParams() != x.params {
			t.Errorf("%d parameters, want %d", m.NumParams(), x.params)
		}
		for _, r := range []Recompute{KeepAll, Layer} {
			back, err := NewBackward(m, nil, r, 1024)
			if err != nil {
				t.Fatal(err)
			}
			opt, err := NewOptimizer(m, DefaultOptimizer(), 10)
			if err != nil {
				t.Fatal(err)
			}
			if err := torch.Try(func() error {
				if n := len(Score(m, nil, 1024, batch)); n != len(batch.Rows) {
					t.Errorf("%d rows scored of %d", n, len(batch.Rows))
				}
				if err := back.Accumulate(batch, ones); err != nil {
					return err
				}
				_, _, err := opt.Apply(back.Grads)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			params := int64(0)
			for i, l := range m.Leaves() {
				s := back.Grads[i].Shape()
				if !slices.Equal(s, l.Tensor.Shape()) || !slices.Equal(s, opt.Masters()[i].Shape()) {
					t.Errorf("%s: gradient %v, weight %v, master %v", l.Name, s, l.Tensor.Shape(), opt.Masters()[i].Shape())
				}
				params += back.Grads[i].Numel()
			}
			if params != x.params {
				t.Errorf("%d ranks: %d parameters on this one, want %d", x.ranks, params, x.params)
			}
			_ = torch.Do(func() { back.Close(); opt.Close() })
		}
		for _, l := range m.Leaves() {
			if l.Name == "layers.47.qkv_proj" && !slices.Equal(l.Tensor.Shape(), x.qkv) || l.Name == "layers.47.down_proj" && !slices.Equal(l.Tensor.Shape(), x.down) {
				t.Errorf("%s is %v", l.Name, l.Tensor.Shape())
			}
		}
		_ = torch.Do(m.Close)
		if grown, took := memory(t, "VmRSS")-rss, time.Since(start); grown > 300 || took > time.Minute {
			t.Errorf("took %.0f MiB and %v", grown, took)
		} else {
			t.Logf("%d ranks: %.0f MiB, %v", x.ranks, grown, took.Round(time.Millisecond))
		}
	}
}
