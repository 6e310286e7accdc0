// Package score computes the log-probability of every token of given sequences.
package score

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"seadtrain/dialogue"
	"seadtrain/model"
	"seadtrain/model/tokenizer"
	"seadtrain/torch"
	"seadtrain/train"
)

// MaxBatchTokens is the most that one forward may be asked to hold.
const MaxBatchTokens = train.MaxTokens

// headRows is the number of rows of logits alive at once: with a vocabulary of 150,000 it takes 150 MB.
const headRows = 256

// Read reads JSONL, {"ids": [1, 2, …]} or {"text": "…"} a line, and checks every line, so that an error comes before the
// first result. name is the file's. tok is called for the tokenizer when a line has text; special tokens in it are
// recognised, as Hugging Face's tokenizers do.
func Read(r io.Reader, name string, m *model.Model, tok func() (*tokenizer.Tokenizer, error)) ([][]int32, error) {
	var all [][]int32
	for line, err := range dialogue.Lines(r, name) {
		if err != nil {
			return nil, err
		}
		ids, err := parse(line.Text, tok)
		if err == nil {
			err = check(ids, m)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line.Where, err)
		}
		all = append(all, ids)
	}
	return all, nil
}

func parse(line []byte, tok func() (*tokenizer.Tokenizer, error)) ([]int32, error) {
	var in struct {
		IDs  []int32 `json:"ids"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return nil, fmt.Errorf(`want {"ids": [1, 2, …]} or {"text": "…"}: %w`, dialogue.ExplainJSON(err))
	}
	if (in.IDs == nil) == (in.Text == nil) {
		return nil, errors.New(`want either "ids" or "text"`)
	}
	if in.IDs != nil {
		return in.IDs, nil
	}
	t, err := tok()
	if err != nil {
		return nil, err
	}
	return t.EncodeRaw(*in.Text)
}

func check(ids []int32, m *model.Model) error {
	if len(ids) > m.MaxPositions() {
		return fmt.Errorf("%d tokens exceed the model's context of %d", len(ids), m.MaxPositions())
	}
	return m.CheckIDs(ids)
}

// Write computes the log-probs and writes {"logprobs": [null, -1.5, …]} per sequence: entry i is log π(token i | those
// before it), in natural logarithms; the first token has none. When ctx is cancelled the output ends with a whole line.
func Write(ctx context.Context, w io.Writer, m *model.Model, seqs [][]int32, batchTokens int) error {
	out := bufio.NewWriter(w)
	for len(seqs) > 0 {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, out.Flush())
		}
		n, tokens := 1, len(seqs[0])
		for n < len(seqs) && tokens+len(seqs[n]) <= batchTokens {
			tokens += len(seqs[n])
			n++
		}
		lines, err := logProbs(m, seqs[:n], tokens)
		if err != nil {
			return err
		}
		for _, l := range lines {
			text, err := json.Marshal(map[string][]*float64{"logprobs": l})
			if err != nil {
				return err
			}
			if _, err := out.Write(append(text, '\n')); err != nil {
				return err
			}
		}
		seqs = seqs[n:]
	}
	return out.Flush()
}

// logProbs scores a few sequences in one forward.
func logProbs(m *model.Model, seqs [][]int32, tokens int) ([][]*float64, error) {
	out := make([][]*float64, len(seqs))
	var samples []*train.Sample
	place := map[*train.Sample]int{}
	for i, ids := range seqs {
		out[i] = make([]*float64, len(ids))
		if len(ids) < 2 {
			continue
		}
		s := &train.Sample{Tokens: ids, Loss: make([]bool, len(ids)), Temperature: 1}
		for k := range ids[1:] {
			s.Loss[k+1] = true
		}
		samples = append(samples, s)
		place[s] = i
	}
	for _, b := range train.Pack(samples, tokens) {
		err := torch.Do(func() {
			for j, st := range train.Score(m, nil, headRows, b) {
				lp := st.LogProb()
				out[place[b.Samples[b.Sample[j]]]][b.Token[j]] = &lp
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
