package bench

import (
	"context"
	"errors"
	"time"
)

// Rounds bounds the alternations of one row: the least that the figures should rest on, and when enough is enough.
const fewRounds, manyRounds = 3, 5

// alternate runs the sides by turns and collects what each returns, by side and round. The first round is always whole;
// another begins while the time that the last one took still fits into the limit. Beyond fewRounds only short rounds go on.
// A later round that the deadline of ctx cuts short is left out.
func alternate(ctx context.Context, limit time.Duration, sides ...func(context.Context) (float64, error)) ([][]float64, error) {
	out := make([][]float64, len(sides))
	began, last := time.Now(), time.Duration(0)
	for round := range manyRounds {
		used := time.Since(began)
		if round > 0 && used+last > limit || round >= fewRounds && used > limit/2 {
			break
		}
		for i, side := range sides {
			v, err := side(ctx)
			if err == nil {
				err = ctx.Err()
			}
			if round > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				for k := range out {
					out[k] = out[k][:round]
				}
				return out, nil
			}
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], v)
		}
		last = time.Since(began) - used
	}
	return out, nil
}
