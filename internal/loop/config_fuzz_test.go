package loop

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"seadtrain/internal/config"
)

// Whatever the text is, a config is refused with its file in every line, or what is written of it reads back as the same.
func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob("../../configs/*.toml")
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
	f.Add([]byte("name = \"a\"\nmodel = \"m\"\n[train.optimizer]\nlr = nan\n"))
	f.Add([]byte("name = \"a\"\nmodel = \"m\"\n[rollout]\nagent = { top_k = 9223372036854775807 }\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg := Default()
		if err := config.Parse("a.toml", text, nil, &cfg); err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				if !strings.HasPrefix(line, "a.toml:") {
					t.Fatalf("no file in %q of\n%s", line, err)
				}
			}
			return
		}
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := config.Write(path, &cfg); err != nil {
			t.Fatal(err)
		}
		var again Config
		if err := config.Load(path, nil, &again); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(cfg, again) {
			t.Fatalf("reads back as\n%+v, was\n%+v", again, cfg)
		}
	})
}
