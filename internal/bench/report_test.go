package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// Ours 20, 25, 22 and theirs 10, 10, 8: best 25 against 10, single rounds 2, 2.5, 2.75.
func TestRatio(t *testing.T) {
	row := Row{Name: "x"}.against([]float64{20, 25, 22}, []float64{10, 10, 8})
	if row.Value != 25 || row.PeerValue != 10 || row.Ratio != 2.5 || row.RatioLow != 2 || row.RatioHigh != 2.75 || row.Alternations != 3 {
		t.Errorf("%+v", row)
	}
	row = Row{}.of([]float64{4, 6}, 8)
	if row.Value != 6 || row.PeerValue != 8 || row.Ratio != .75 || row.RatioLow != .5 || row.RatioHigh != .75 {
		t.Errorf("%+v", row)
	}
	for _, theirs := range []float64{0, math.NaN()} {
		if row := (Row{}).against([]float64{1}, []float64{theirs}); !math.IsNaN(float64(row.Ratio)) || !math.IsNaN(float64(row.RatioLow)) {
			t.Errorf("against %v: %+v", theirs, row)
		}
	}
}

func TestReport(t *testing.T) {
	r := &Report{Machine: "m", Rows: []Row{
		Row{Name: "a", Unit: "tokens/s", Peer: "hf (transformers 5)", Precision: "fp32", Work: "work", Notes: []string{"a note"}}.against([]float64{3, 4}, []float64{1, 2}),
		failed("b", "bf16", "openvino", errors.New("no\nluck")),
	}}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"machine":"m","rows":[` +
		`{"name":"a","precision":"fp32","work":"work","value":4,"unit":"tokens/s","peer":"hf (transformers 5)","peer_value":2,"ratio":2,"ratio_low":2,"ratio_high":3,"alternations":2,"notes":["a note"]},` +
		`{"name":"b","precision":"bf16","work":"","value":null,"unit":"","peer":"openvino","peer_value":null,"ratio":null,"ratio_low":null,"ratio_high":null,"alternations":0,"error":"no luck"}]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	const table = `m

name  precision  peer      ours  theirs      unit  ratio       (from to)
a     fp32       hf        4.00    2.00  tokens/s   2.00  (2.00 to 3.00)
b     bf16       openvino     -       -                -                

  a: work; a note
  b: not measured: no luck
`
	if got := r.String(); got != table {
		t.Errorf("got\n%s\nwant\n%s", got, table)
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[Number]string{0: "0.00000", .0123: "0.0123", .5: "0.500", 1: "1.00", 12.34: "12.3", 123.4: "123", 12345: "12345"} {
		if got := n.String(); got != want {
			t.Errorf("%v: %s, want %s", float64(n), got, want)
		}
	}
}

func TestAlternate(t *testing.T) {
	var calls strings.Builder
	side := func(name string, takes time.Duration, fails error) func(context.Context) (float64, error) {
		n := 0.
		return func(ctx context.Context) (float64, error) {
			calls.WriteString(name)
			select {
			case <-time.After(takes):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			n++
			return n, fails
		}
	}
	const ms = time.Millisecond
	for _, c := range []struct {
		name            string
		limit, deadline time.Duration
		a, b            func(context.Context) (float64, error)
		calls           string
		rounds          int // -1: an error
	}{
		{"quick", time.Hour, time.Hour, side("a", 0, nil), side("b", 0, nil), "ababababab", manyRounds},
		{"no time: one whole round", 0, time.Hour, side("a", ms, nil), side("b", ms, nil), "ab", 1},
		{"time for two", 250 * ms, time.Hour, side("a", 50*ms, nil), side("b", 50*ms, nil), "abab", 2},
		{"three, though more would fit", 400 * ms, time.Hour, side("a", 40*ms, nil), side("b", 40*ms, nil), "ababab", 3},
		{"cut in the second round", time.Hour, 250 * ms, side("a", 100*ms, nil), side("b", 100*ms, nil), "aba", 1},
		{"cut in the first round", time.Hour, 50 * ms, side("a", 0, nil), side("b", time.Hour, nil), "ab", -1},
		{"error", time.Hour, time.Hour, side("a", 0, errors.New("no")), side("b", 0, nil), "a", -1},
	} {
		calls.Reset()
		ctx, cancel := context.WithTimeout(context.Background(), c.deadline)
		out, err := alternate(ctx, c.limit, c.a, c.b)
		cancel()
		if (err != nil) != (c.rounds < 0) || calls.String() != c.calls {
			t.Errorf("%s: calls %s, want %s; %v", c.name, &calls, c.calls, err)
		}
		for _, side := range out {
			if len(side) != c.rounds || side[len(side)-1] != float64(c.rounds) {
				t.Errorf("%s: %v, want %d rounds", c.name, out, c.rounds)
			}
		}
	}
}

func TestAgreement(t *testing.T) {
	note, err := agreement([][]int32{{1, 2, 3}, {4, 5, 6}}, [][]int32{{1, 2, 9}, {4, 5, 6}})
	if err != nil || note != "greedy tokens agree for 2, 3 of 3" {
		t.Errorf("%q, %v", note, err)
	}
	if _, err := agreement([][]int32{{1}}, [][]int32{{2}}); err == nil {
		t.Error("sides without a common token agree")
	}
	if _, err := agreement([][]int32{{1}}, nil); err == nil {
		t.Error("a side that says nothing agrees")
	}
}
