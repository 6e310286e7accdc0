package model

import (
	"fmt"
	"math"

	"seadtrain/torch"
)

// Quality is how near the predictions of one form of a model are to those of another, over a text.
type Quality struct {
	Tokens     int     // predicted: all but the first
	Mean, Max  float64 // |difference| of the log-prob of the token that follows
	SameGreedy float64 // share of tokens before which both find the same one likeliest, 0 to 1
}

func (q Quality) String() string {
	return fmt.Sprintf("log-probs off by %.2g on average, %.2g at most; likeliest token the same for %.1f %% of %d", q.Mean, q.Max, 100*q.SameGreedy, q.Tokens)
}

// Compare reads a text of at least two tokens with both models.
func (m *Model) Compare(exact *Model, ids []int32) (Quality, error) {
	q := Quality{Tokens: len(ids) - 1}
	err := torch.Do(func() {
		const chunk = 64 // rows of logits at a time
		pos := make([]int32, q.Tokens)
		for i := range pos {
			pos[i] = int32(i)
		}
		hidden := func(m *Model) *torch.Tensor {
			return m.Hidden(ids[:q.Tokens], pos, Packed{Cu: []int64{0, int64(q.Tokens)}})
		}
		h, he := hidden(m), hidden(exact)
		for from := 0; from < q.Tokens; from += chunk {
			n := min(chunk, q.Tokens-from)
			torch.InScope(func() {
				next := torch.Of(ids[from+1:from+1+n]).To(torch.I64, torch.CPU).Reshape(-1, 1)
				read := func(m *Model, h *torch.Tensor) (logProbs []float64, best []int64) {
					lp := m.Logits(h.Narrow(0, int64(from), int64(n))).LogSoftmax(1)
					return torch.Data[float64](lp.Gather(1, next)), torch.Data[int64](lp.Argmax(1))
				}
				a, best := read(m, h)
				b, bestExact := read(exact, he)
				for i := range a {
					off := math.Abs(a[i] - b[i])
					q.Mean, q.Max = q.Mean+off/float64(q.Tokens), math.Max(q.Max, off)
					if best[i] == bestExact[i] {
						q.SameGreedy += 1 / float64(q.Tokens)
					}
				}
			})
		}
	})
	return q, err
}
