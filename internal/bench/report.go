package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"seadtrain/internal/textgrid"
)

// Number is a float that may be unknown: NaN, which is null in JSON.
type Number float64

// Unknown is the number of a row that could not be measured.
var Unknown = Number(math.NaN())

func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return []byte(strconv.FormatFloat(float64(n), 'g', 6, 64)), nil
}

func (n Number) String() string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(max(math.Abs(float64(n)), 1e-3)))))
	return strconv.FormatFloat(float64(n), 'f', digits, 64)
}

// Row is one line of the table.
type Row struct {
	Name      string `json:"name"`
	Precision string `json:"precision,omitempty"` // of the weights: fp32, bf16, int8
	Work      string `json:"work"`
	Value     Number `json:"value"` // this program's
	Unit      string `json:"unit"`
	Peer      string `json:"peer"`       // what it is compared with: a program and its versions, or a limit
	PeerValue Number `json:"peer_value"` // in the same unit
	// Ratio is Value over PeerValue, each the best of the alternations; low and high are the extremes of single alternations.
	Ratio        Number   `json:"ratio"`
	RatioLow     Number   `json:"ratio_low"`
	RatioHigh    Number   `json:"ratio_high"`
	Alternations int      `json:"alternations"`
	Notes        []string `json:"notes,omitempty"`
	Error        string   `json:"error,omitempty"` // why there are no numbers
}

// failed is a row without numbers.
func failed(name, precision, peer string, err error) Row {
	return Row{Name: name, Precision: precision, Peer: peer, Value: Unknown, PeerValue: Unknown,
		Ratio: Unknown, RatioLow: Unknown, RatioHigh: Unknown, Error: strings.ReplaceAll(err.Error(), "\n", " ")}
}

// against fills the numbers from rates by alternation: value and peer value are the best, the ratio theirs.
func (r Row) against(ours, theirs []float64) Row {
	r.Value, r.PeerValue, r.Alternations = Unknown, Unknown, len(ours)
	r.Ratio, r.RatioLow, r.RatioHigh = Unknown, Unknown, Unknown
	best, other := 0.0, 0.0
	low, high := math.Inf(1), 0.0
	for i := range ours {
		best, other = max(best, ours[i]), max(other, theirs[i])
		low, high = min(low, ours[i]/theirs[i]), max(high, ours[i]/theirs[i])
	}
	if best > 0 && other > 0 {
		r.Value, r.PeerValue = Number(best), Number(other)
		r.Ratio, r.RatioLow, r.RatioHigh = Number(best/other), Number(low), Number(high)
	}
	return r
}

// of fills the numbers of rates that are compared with one limit.
func (r Row) of(rates []float64, limit float64) Row {
	limits := make([]float64, len(rates))
	for i := range limits {
		limits[i] = limit
	}
	return r.against(rates, limits)
}

// Report is what a run gives.
type Report struct {
	Machine string `json:"machine"`
	Rows    []Row  `json:"rows"`
}

func (r *Report) String() string {
	cells := [][]string{{"name", "precision", "peer", "ours", "theirs", "unit", "ratio", "(from to)"}}
	var notes strings.Builder
	for _, row := range r.Rows {
		spread := ""
		if row.Alternations > 1 {
			spread = fmt.Sprintf("(%s to %s)", row.RatioLow, row.RatioHigh)
		}
		cells = append(cells, []string{row.Name, row.Precision, short(row.Peer), row.Value.String(), row.PeerValue.String(), row.Unit,
			row.Ratio.String(), spread})
		if said := row.said(); len(said) > 0 {
			fmt.Fprintf(&notes, "  %s: %s\n", row.Name, strings.Join(said, "; "))
		}
	}
	return fmt.Sprintf("%s\n\n%s\n%s", r.Machine, textgrid.Columns(cells, 3), notes.String())
}

// said is everything about a row that is not a number.
func (r Row) said() []string {
	var all []string
	for _, s := range append([]string{r.Work}, r.Notes...) {
		if s != "" {
			all = append(all, s)
		}
	}
	if r.Error != "" {
		all = append(all, "not measured: "+r.Error)
	}
	return all
}

// short is a peer's name without its versions.
func short(peer string) string {
	name, _, _ := strings.Cut(peer, " (")
	return name
}
