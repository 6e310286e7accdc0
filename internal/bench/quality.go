package bench

import (
	"context"
	"time"

	"seadtrain/internal/hfdir"
	"seadtrain/model"
	"seadtrain/torch"
)

// quality measures what narrower weights cost: the error of log-probs and the share of equal greedy tokens against fp32, over
// real text.
func (b *bench) quality() task {
	return task{names: []string{"log_prob_error", "log_prob_error_most", "greedy_same"}, share: 10, run: func(context.Context, time.Duration) ([]Row, error) {
		exact, err := hfdir.Open(b.Model, model.Options{DType: torch.F32})
		if err != nil {
			return nil, err
		}
		defer exact.Close()
		q, err := b.engine.Model.Compare(exact.Model, b.text.cut(0, b.Sizes.Context))
		if err != nil {
			return nil, err
		}
		const work = "predictions of a text, against fp32"
		return []Row{
			plain("log_prob_error", work+", on average", "nats", q.Mean),
			plain("log_prob_error_most", work+", at most", "nats", q.Max),
			plain("greedy_same", work+": the same likeliest token", "%", 100*q.SameGreedy),
		}, nil
	}}
}
