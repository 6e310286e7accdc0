package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

type sampling struct {
	Temperature float64 `toml:"temperature"`
	TopK        int     `toml:"top_k"`
}

type sample struct {
	Name  string   `toml:"name"`
	Seed  uint64   `toml:"seed"`
	Fast  bool     `toml:"fast"`
	Users []string `toml:"users"`
	Role  struct {
		sampling
		Limit int `toml:"limit"`
	} `toml:"role"`
	Train struct {
		LR float64 `toml:"lr"`
	} `toml:"train"`
}

func (s *sample) Validate() error {
	var errs []error
	if s.Role.TopK < 0 {
		errs = append(errs, fmt.Errorf("role.top_k: %d: want 0 or more", s.Role.TopK))
	}
	if s.Train.LR > 1 {
		errs = append(errs, fmt.Errorf("lr is %v: want 0 to 1", s.Train.LR)) // the last part alone
	}
	return errors.Join(errs...)
}

func defaults() *sample {
	s := &sample{Name: "default", Seed: 1, Users: []string{"rules"}}
	s.Role.Temperature, s.Train.LR = 1, .5
	return s
}

func TestParse(t *testing.T) {
	text := `
name = "x"
[role]
top_k = 3
temperature = 2 # a whole number is a number
`
	got := defaults()
	if err := Parse("a.toml", []byte(text), []string{"train.lr=0.25", "users=[\"a\", \"b\"]", "seed = 9"}, got); err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Name, want.Seed, want.Users = "x", 9, []string{"a", "b"}
	want.Role.TopK, want.Role.Temperature, want.Train.LR = 3, 2, .25
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := Parse("", nil, []string{"name=true story", `name="quoted"`}, got); err != nil || got.Name != "quoted" {
		t.Errorf("bare and quoted strings: %q, %v", got.Name, err)
	}
}

// A flag that stands for a key is called by its own name, and counts less than --set.
func TestFlags(t *testing.T) {
	got := defaults()
	if err := Parse("a.toml", []byte("[train]\nlr = 0.1\n"), []string{"seed=9"}, got, Flag{"lr", "train.lr", "0.2"}, Flag{"seed", "seed", "8"}); err != nil || got.Train.LR != .2 || got.Seed != 9 {
		t.Errorf("%+v, %v", got, err)
	}
	for value, want := range map[string]string{"abc": `--lr abc: "abc": want a number`, "2": "--lr 2: train.lr is 2: want 0 to 1"} {
		if err := Parse("", nil, nil, defaults(), Flag{"lr", "train.lr", value}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestEveryErrorAtOnce(t *testing.T) {
	for _, c := range []struct {
		name, text string
		set        []string
		want       []string // every message, in order
	}{
		{"unknown keys and wrong types", "nam = 1\nseed = -4\nfast = \"yes\"\n[role]\ntopk = 3\nlimit = 1.5\n[trane]\nlr = 1\n", nil, []string{
			`a.toml:3: fast: the string "yes": want true or false`,
			`a.toml:1: nam: unknown key: did you mean "name"?`,
			`a.toml:6: role.limit: 1.5: want a whole number`,
			`a.toml:5: role.topk: unknown key: did you mean "role.top_k"?`,
			`a.toml:2: seed: -4: want a whole number, 0 or more`,
			`a.toml:7: trane: unknown key: did you mean "train"?`,
		}},
		{"a known name in the wrong table", "lr = 1\n", nil, []string{`a.toml:1: lr: unknown key: did you mean "train.lr"?`}},
		{"nothing near", "zzzzzzzzzzzz = 1\n", nil, []string{`a.toml:1: zzzzzzzzzzzz: unknown key`}},
		{"unknown keys hide nothing else", "nam = 1\n[train]\nlr = 2\n", []string{"role.top_k=-1", "x=1"}, []string{
			`a.toml:1: nam: unknown key: did you mean "name"?`, `--set x=1: unknown key`,
			`--set role.top_k=-1: role.top_k: -1: want 0 or more`, `a.toml:3: train.lr is 2: want 0 to 1`,
		}},
		{"syntax", "name = \"x\"\nseed = = 3\n", nil, []string{`a.toml:2: `}},
		{"the struct's own errors", "[role]\ntop_k = -1\n[train]\nlr = 2\n", nil, []string{
			`a.toml:2: role.top_k: -1: want 0 or more`, `a.toml:4: train.lr is 2: want 0 to 1`,
		}},
		{"inline tables have lines too", "role = {top_k = -1}\n", nil, []string{`a.toml:1: role.top_k: -1: want 0 or more`}},
		{"overrides", "", []string{"train.lr=2", "role.topk=1", "seed", "fast=maybe", "train=3"}, []string{
			`--set role.topk=1: unknown key: did you mean "role.top_k"?`,
			`--set seed: want key=value`,
			`--set fast=maybe: "maybe": want true or false`,
			`--set train=3: 3: want a table`,
			`--set train.lr=2: train.lr is 2: want 0 to 1`,
		}},
		{"an override's own error names it", "[train]\nlr = 0.1\n", []string{"train.lr=2"}, []string{`--set train.lr=2: train.lr is 2: want 0 to 1`}},
		{"case matters", "Name = \"x\"\n", nil, []string{`a.toml:1: Name: unknown key: did you mean "name"?`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Parse("a.toml", []byte(c.text), c.set, defaults())
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != len(c.want) {
				t.Fatalf("got %d messages, want %d:\n%v", len(got), len(c.want), err)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("message %d is %q, want %q", i, got[i], c.want[i])
				}
			}
		})
	}
}

func TestWriteReadsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	want := defaults()
	want.Name, want.Train.LR, want.Role.Temperature = "quote \" and\nline", 1e-6, 0.1+0.2
	if err := Write(path, want); err != nil {
		t.Fatal(err)
	}
	got := &sample{}
	if err := Load(path, nil, got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		text, _ := os.ReadFile(path)
		t.Errorf("got %+v, want %+v from\n%s", got, want, text)
	}
	if err := Load(filepath.Join(t.TempDir(), "none.toml"), nil, got); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
