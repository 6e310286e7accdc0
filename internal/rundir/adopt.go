package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"seadtrain/internal/config"
)

const configName = "config.toml"

// Agree checks that a directory with a config in it has this one, but for the keys in free, which do not change what is
// computed.
func (d *Dir) Agree(cfg config.Validator, stored config.Validator, free ...string) error {
	path := d.File(configName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := config.Load(path, nil, stored); err != nil {
		return fmt.Errorf("the run directory's config: %w", err)
	}
	was, err := config.Marshal(stored)
	if err != nil {
		return err
	}
	is, err := config.Marshal(cfg)
	if err != nil {
		return err
	}
	if bytes.Equal(was, is) {
		return nil
	}
	var differ []string
	before := flat(was)
	for key, now := range flat(is) {
		if before[key] != now && !slices.Contains(free, key) {
			differ = append(differ, fmt.Sprintf("%s was %s, is %s", key, before[key], now))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return fmt.Errorf("%s belongs to a run with another config (%s): go on with that one, or take a new directory", d.Path, strings.Join(differ, "; "))
}

// Begin writes the resolved config, unless there is one, and makes the folders of a run: call it when all that the run
// needs is open, so that a start that fails leaves nothing to stumble over.
func (d *Dir) Begin(cfg config.Validator, folders ...string) error {
	for _, name := range folders {
		if err := os.MkdirAll(d.File(name), 0o755); err != nil {
			return fmt.Errorf("begin a run: %w", err)
		}
	}
	path := d.File(configName)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return config.Write(path, cfg)
}

// flat lists the keys of a marshalled config by full path, with their values as text.
func flat(text []byte) map[string]string {
	out := map[string]string{}
	table := ""
	for _, line := range strings.Split(string(text), "\n") {
		if name, ok := strings.CutPrefix(line, "["); ok {
			table = strings.TrimSuffix(name, "]") + "."
		} else if key, value, ok := strings.Cut(line, " = "); ok {
			out[table+key] = value
		}
	}
	return out
}
