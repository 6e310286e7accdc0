package textgrid

import (
	"fmt"
	"testing"

	"seadtrain/dialogue"
)

func TestRender(t *testing.T) {
	s := &dialogue.Scenario{Dimensions: []dialogue.Dimension{
		{Name: "mood", Levels: 2}, {Name: "信任", Levels: 2}, {Name: "x", Levels: 3},
	}}
	got := Render(s, func(i int) string { return fmt.Sprint(i * i) })
	want := `mood  信任  x 0  x 1  x 2
   0   0    0    1    4
   0   1    9   16   25
   1   0   36   49   64
   1   1   81  100  121
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	s.Dimensions = s.Dimensions[2:]
	if got, want := Render(s, func(i int) string { return fmt.Sprint(i) }), "x 0  x 1  x 2\n  0    1    2\n"; got != want {
		t.Errorf("one dimension: got\n%swant\n%s", got, want)
	}
}
