package scenarios

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"seadtrain/dialogue"
)

//go:embed */*.toml
var files embed.FS

// Ref names an embedded scenario.
type Ref struct{ Name, Language string }

func (r Ref) String() string { return r.Name + "/" + r.Language }

// List names the embedded scenarios, sorted by name and language.
func List() []Ref {
	names, err := files.ReadDir(".")
	if err != nil {
		panic(err) // an embedded root always reads
	}
	var refs []Ref
	for _, dir := range names {
		entries, err := files.ReadDir(dir.Name())
		if err != nil {
			panic(err)
		}
		for _, e := range entries {
			refs = append(refs, Ref{dir.Name(), strings.TrimSuffix(e.Name(), ".toml")})
		}
	}
	return refs
}

// Load reads an embedded scenario: Load("outbound", "en").
func Load(name, language string) (*dialogue.Scenario, error) {
	file := path.Join(name, language+".toml")
	data, err := files.ReadFile(file)
	if err != nil {
		var have []string
		for _, r := range List() {
			have = append(have, r.String())
		}
		return nil, fmt.Errorf("no scenario %s/%s: there are %s", name, language, strings.Join(have, ", "))
	}
	return parse("scenarios/"+file, data)
}

// LoadFile reads a scenario of the user's own from a file in the same form.
func LoadFile(file string) (*dialogue.Scenario, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load scenario: %w", err)
	}
	return parse(file, data)
}

// parse decodes and checks a scenario; the error lists everything that is wrong, a line each: file:line: field: what.
func parse(file string, data []byte) (*dialogue.Scenario, error) {
	var scn dialogue.Scenario
	err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(&scn)
	var unknown *toml.StrictMissingError
	var broken *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		var errs []error
		for i := range unknown.Errors {
			e := &unknown.Errors[i]
			line, _ := e.Position()
			key := e.Key()
			errs = append(errs, fmt.Errorf("%s:%d: %s: unknown key%s", file, line, strings.Join(key, "."), suggest(key[len(key)-1])))
		}
		return nil, errors.Join(errs...)
	case errors.As(err, &broken):
		line, _ := broken.Position()
		return nil, fmt.Errorf("%s:%d: %s", file, line, strings.TrimPrefix(broken.Error(), "toml: "))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	problems := scn.Validate()
	if len(problems) == 0 {
		return &scn, nil
	}
	lines := keyLines(data)
	var errs []error
	for _, p := range problems {
		errs = append(errs, fmt.Errorf("%s:%d: %s", file, lines.of(p.Path), p))
	}
	return nil, errors.Join(errs...)
}
