package model

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Whatever the text is, ParseConfig returns an error or a config whose own JSON reads back as the same, with the same
// rope.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(qwen25))
	f.Add([]byte(`{"model_type":"llama","rope_scaling":{"rope_type":"yarn","factor":1e300}}`))
	files, err := filepath.Glob("testdata/tiny/*/config.json")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig(text)
		if err != nil {
			return
		}
		again, err := ParseConfig(c.JSON())
		if err != nil {
			t.Fatalf("its own JSON is refused: %v\n%s", err, c.JSON())
		}
		if string(again.JSON()) != string(c.JSON()) {
			t.Fatalf("reads back as\n%s, was\n%s", again.JSON(), c.JSON())
		}
		if c.HeadDim > 1<<12 {
			return
		}
		freq, scaling := c.RopeInvFreq()
		freq2, scaling2 := again.RopeInvFreq()
		if !slices.Equal(freq, freq2) || scaling != scaling2 { // NaN is unequal to itself
			t.Fatalf("rope %v, %v; read back %v, %v\n%s", freq, scaling, freq2, scaling2, c.JSON())
		}
	})
}
