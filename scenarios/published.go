package scenarios

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"seadtrain/dialogue"
)

// libraryKey is the one key of the published library format.
const libraryKey = "User_Persona_Classification"

// categoryNumber is what stands before a published category's name: "3. Cost".
var categoryNumber = regexp.MustCompile(`^\s*\d+\s*[.、．:：)]`)

// LoadLibrary reads a behaviour library in the published format, {"User_Persona_Classification": {"<n>. <Category>":
// ["behaviour", …]}}, as it is and in file order. The text is all that a published behaviour has, so its id is its place:
// "3.07" is the seventh of the third category. Contradictions are not part of the format.
func LoadLibrary(file string) ([]dialogue.Behaviour, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load behaviour library: %w", err)
	}
	return parseLibrary(file, data)
}

// parseLibrary reads token by token: encoding/json's maps would lose the file's order and drop repeated keys.
func parseLibrary(file string, data []byte) ([]dialogue.Behaviour, error) {
	r := &libraryReader{json.NewDecoder(bytes.NewReader(data))}
	behaviours, err := r.library()
	if err == nil {
		if _, more := r.d.Token(); more != io.EOF {
			err = errors.New("more text after the library's end")
		}
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("%s:%d: %w", file, 1+bytes.Count(data[:r.d.InputOffset()], []byte("\n")), err)
	}
	return behaviours, nil
}

type libraryReader struct{ d *json.Decoder }

func (r *libraryReader) library() ([]dialogue.Behaviour, error) {
	shape := fmt.Errorf("want {%q: {\"<n>. <Category>\": [\"behaviour\", …]}}", libraryKey)
	if !r.next(json.Delim('{')) || !r.next(libraryKey) || !r.next(json.Delim('{')) {
		return nil, shape
	}
	var all []dialogue.Behaviour
	for place := 1; r.d.More(); place++ {
		tok, err := r.d.Token()
		if err != nil {
			return nil, err
		}
		title := tok.(string) // an object's keys are strings
		name := strings.TrimSpace(categoryNumber.ReplaceAllString(dialogue.Clean(title), ""))
		if name == "" {
			return nil, fmt.Errorf("category %q has no name", title)
		}
		var texts []string
		if err := r.d.Decode(&texts); err != nil {
			return nil, fmt.Errorf("category %q: want a list of strings: %w", title, err)
		}
		for i, text := range texts {
			text = strings.TrimSpace(dialogue.Clean(text))
			if text == "" {
				return nil, fmt.Errorf("category %q: behaviour %d is empty", title, i+1)
			}
			all = append(all, dialogue.Behaviour{ID: fmt.Sprintf("%d.%02d", place, i+1), Category: name, Text: text})
		}
	}
	for range 2 { // the library's end, and the file's
		if !r.next(json.Delim('}')) {
			return nil, shape
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the library has no behaviours")
	}
	return all, nil
}

// next reads one token and reports whether it is the wanted one.
func (r *libraryReader) next(want json.Token) bool {
	tok, err := r.d.Token()
	return err == nil && tok == want
}
