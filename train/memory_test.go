package train

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/internal/testenv"
	"seadtrain/model"
	"seadtrain/torch"
)

// memory reads a line of /proc/self/status in MiB: VmRSS now, VmHWM the peak since resetPeak.
func memory(t *testing.T, field string) float64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		if rest, ok := strings.CutPrefix(string(line), field+":"); ok {
			var kb float64
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				t.Fatal(err)
			}
			return kb / 1024
		}
	}
	t.Fatalf("no %s in /proc/self/status", field)
	return 0
}

func resetPeak(t *testing.T) {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		testenv.Missing(t, "the kernel does not reset a process's peak: %v", err)
	}
}

func TestResidentMemoryStaysFlat(t *testing.T) {
	policy, err := model.Init(nanoConfig(), model.Options{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := policy.Copy()
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.MiniBatches, c.MicroTokens, c.HeadRows = 1, 150, 40
	tr, err := NewTrainer(c, policy, ref, nil, nil, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = torch.Do(func() { tr.Close(); policy.Close(); ref.Close() }) }()
	var episodes []*dialogue.Episode
	for i := range 4 { // of different lengths, so that sizes of buffers vary
		episodes = append(episodes, plain(fmt.Sprint(i), 0, float64(i%2), 30+11*i, 3))
	}
	run := func(n int) {
		for s := range n {
			if _, err := tr.Step(context.Background(), episodes, uint64(s)); err != nil {
				t.Fatal(err)
			}
		}
	}
	run(20)
	debug.FreeOSMemory()
	live, before := torch.Live(), memory(t, "VmRSS")
	steps := testenv.Nightly(200, 2000)
	run(steps)
	debug.FreeOSMemory()
	// One micro-batch's hidden states, [150, 128] fp32, are 75 KiB: one tensor left behind a step makes 15 MiB.
	if after := memory(t, "VmRSS"); after > before+6 {
		t.Errorf("resident memory went from %.1f to %.1f MiB in %d steps", before, after, steps)
	}
	if n := torch.Live(); n != live {
		t.Errorf("%d handles, %d before", n, live)
	}
}

// The head's logits live a chunk at a time, forward and backward.
func TestNoBufferOfTokensTimesVocabulary(t *testing.T) {
	const vocab, trained = 50_000, 2_000 // all logits at once: 381 MiB
	c, err := model.ParseConfig(fmt.Appendf(nil, `{"model_type":"qwen2","vocab_size":%d,"hidden_size":16,"intermediate_size":32,
		"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":1,"max_position_embeddings":512,"tie_word_embeddings":true}`, vocab))
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Init(c, model.Options{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = torch.Do(m.Close) }()
	var samples []*Sample
	for range trained / 400 {
		s := &Sample{ID: "x", Temperature: 1}
		for i := range 401 {
			s.Tokens, s.Loss = append(s.Tokens, int32(i*97%vocab)), append(s.Loss, i > 0)
		}
		samples = append(samples, s)
	}
	batch := Pack(samples, 1<<20)[0]
	peak := func(headRows int) float64 {
		b, err := NewBackward(m, nil, KeepAll, headRows)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = torch.Do(b.Close) }()
		resetPeak(t)
		before := memory(t, "VmRSS")
		err = torch.Try(func() error {
			if n := len(Score(m, nil, headRows, batch)); n != trained {
				return fmt.Errorf("%d rows", n)
			}
			return b.Accumulate(batch, crossEntropy(batch, trained, &SFTMetrics{}))
		})
		if err != nil {
			t.Fatal(err)
		}
		return memory(t, "VmHWM") - before
	}
	peak(50) // the matrix library takes its work space once
	chunked, whole := peak(50), peak(trained)
	if chunked > 120 { // a chunk of logits is 10 MiB
		t.Errorf("peak of %.0f MiB above the start", chunked)
	}
	if whole < 350 {
		t.Errorf("all rows at once peak at %.0f MiB: this test measures nothing", whole)
	}
	t.Logf("peak above the start: %.0f MiB in chunks, %.0f MiB at once", chunked, whole)
}
