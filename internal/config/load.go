package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"seadtrain/dialogue"
)

// Validator checks itself and reports everything at once, in messages that begin with the key's path or, where that is
// enough to tell, with its last part: "train.optimizer.lr is 3: want …", "lr is 3: want …".
type Validator interface{ Validate() error }

// Flag is a flag of the command line that stands for a key.
type Flag struct{ Name, Key, Value string }

// Load reads a file (none if path is empty), flags and overrides ("key=value") into dst, a pointer to a struct that holds
// the defaults. The last one counts.
func Load(path string, overrides []string, dst Validator, flags ...Flag) error {
	var text []byte
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return fmt.Errorf("read config: %w", err)
		}
	}
	return Parse(path, text, overrides, dst, flags...)
}

// Parse is Load for a text at hand; path is its name in messages.
func Parse(path string, text []byte, overrides []string, dst Validator, flags ...Flag) error {
	s := newSchema(reflect.TypeOf(dst).Elem())
	where := places{}
	errs, decoded := s.read(path, text, dst, where)
	for _, f := range flags {
		errs = append(errs, s.set(fmt.Sprintf("--%s %s", f.Name, f.Value), f.Key, f.Value, dst, where)...)
	}
	for _, o := range overrides {
		errs = append(errs, s.override(o, dst, where)...)
	}
	if !decoded { // the struct would complain about defaults that the file replaces
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, s.locate(path, dst.Validate(), where)...)...)
}

// places remembers where each key was set: "file:line", or the override.
type places map[string]string

// read checks a document against the schema and, if its values fit, decodes it.
func (s *schema) read(path string, text []byte, dst any, where places) (errs []error, decoded bool) {
	var doc map[string]any
	if err := toml.Unmarshal(text, &doc); err != nil {
		var broken *toml.DecodeError
		if errors.As(err, &broken) {
			line, _ := broken.Position()
			return []error{fmt.Errorf("%s:%d: %s", path, line, strings.TrimPrefix(broken.Error(), "toml: "))}, false
		}
		return []error{fmt.Errorf("%s: %w", path, err)}, false
	}
	for key, line := range keyLines(text) {
		where[key] = fmt.Sprintf("%s:%d", path, line)
	}
	fits := true
	s.check("", doc, s.root, func(key, problem string, unknown bool) {
		errs = append(errs, fmt.Errorf("%s: %s: %s", where.of(key, path), key, problem))
		fits = fits && unknown
	})
	if !fits {
		return errs, false
	}
	if err := toml.Unmarshal(text, dst); err != nil {
		return append(errs, fmt.Errorf("%s: %w", path, err)), false
	}
	return errs, true
}

// override applies key=value.
func (s *schema) override(o string, dst any, where places) []error {
	name := "--set " + o
	key, value, ok := strings.Cut(o, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if !ok || key == "" {
		return []error{fmt.Errorf("%s: want key=value, for example --set seed=7", name)}
	}
	if _, known := s.keys[key]; !known {
		return []error{fmt.Errorf("%s: unknown key%s", name, s.suggest(key))}
	}
	return s.set(name, key, value, dst, where)
}

// set gives a key a value; one that should be a string needs no quotes. name is how messages call it.
func (s *schema) set(name, key, value string, dst any, where places) []error {
	t := s.keys[key]
	if t.Kind() == reflect.String && !strings.HasPrefix(value, `"`) && !strings.HasPrefix(value, "'") {
		value = fmt.Sprintf("%q", value)
	}
	text := []byte(key + " = " + value)
	var doc map[string]any
	if err := toml.Unmarshal(text, &doc); err != nil {
		switch t.Kind() {
		case reflect.Slice, reflect.Struct, reflect.String:
			return []error{fmt.Errorf("%s: %q is no TOML value", name, value)}
		}
		return []error{fmt.Errorf("%s: %q: want %s", name, value, wanted(value, t))}
	}
	where[key] = name
	var errs []error
	s.check("", doc, s.root, func(_, problem string, _ bool) { errs = append(errs, fmt.Errorf("%s: %s", name, problem)) })
	if len(errs) == 0 {
		if err := toml.Unmarshal(text, dst); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errs
}

// locate puts file and line before what Validate reported.
func (s *schema) locate(path string, err error, where places) []error {
	var out []error
	for _, e := range flatten(err) {
		text := e.Error()
		first := text[:strings.IndexFunc(text+" ", func(r rune) bool { return r == ' ' || r == ':' })]
		key := s.complete(first)
		if key == "" {
			out = append(out, fmt.Errorf("%s: %w", path, e))
			continue
		}
		text = key + strings.TrimPrefix(text, first)
		out = append(out, &located{where.of(key, path) + ": " + text, e})
	}
	return out
}

type located struct {
	text string
	err  error
}

func (l *located) Error() string { return l.text }
func (l *located) Unwrap() error { return l.err }

func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range many.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	return []error{err}
}

// of is where a key was set, else its nearest table, else the file. A key that nobody set has its default.
func (p places) of(key, path string) string {
	for key != "" {
		if at, ok := p[key]; ok {
			return at
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	if path == "" {
		return "defaults"
	}
	return path
}

// Write writes a config such that Load of the file gives the same values.
func Write(path string, c any) error {
	text, err := Marshal(c)
	if err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	return dialogue.AtomicWrite(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// Marshal is the config as TOML.
func Marshal(c any) ([]byte, error) {
	var b bytes.Buffer
	err := toml.NewEncoder(&b).Encode(c)
	return b.Bytes(), err
}
