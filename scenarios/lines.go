package scenarios

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"seadtrain/dialogue"
)

// lineMap gives the line of each key of a TOML document, by paths such as "behaviours[3].contradicts.trust".
type lineMap map[string]int

// of is the line of a path, or of the nearest enclosing table when the key itself is missing; 1 if there is none.
func (m lineMap) of(path string) int {
	for path != "" {
		if line, ok := m[path]; ok {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 1
}

// keyLines walks a document that has already been decoded without error.
func keyLines(data []byte) lineMap {
	w := &lineWalker{lines: lineMap{}, tables: map[string]int{}}
	w.p.Reset(data)
	prefix := ""
	for w.p.NextExpression() {
		switch n := w.p.Expression(); n.Kind {
		case unstable.Table:
			prefix = w.key("", n, false)
		case unstable.ArrayTable:
			prefix = w.key("", n, true)
		case unstable.KeyValue:
			w.keyValue(prefix, n)
		}
	}
	return w.lines
}

type lineWalker struct {
	p      unstable.Parser
	lines  lineMap
	tables map[string]int // arrays of tables seen so far -> number of their elements
}

// key records the line of a (dotted) key below prefix and returns its path. Inside an array of tables a path runs
// through the last element; appends starts a new one.
func (w *lineWalker) key(prefix string, n *unstable.Node, appends bool) string {
	path, line := prefix, 0
	for it := n.Key(); it.Next(); {
		k := it.Node()
		if path != "" {
			path += "."
		}
		path += string(k.Data)
		line = w.p.Shape(k.Raw).Start.Line
		if appends && it.IsLast() {
			w.tables[path]++
		}
		if count := w.tables[path]; count > 0 {
			path += fmt.Sprintf("[%d]", count-1)
		}
		if _, seen := w.lines[path]; !seen {
			w.lines[path] = line
		}
	}
	return path
}

func (w *lineWalker) keyValue(prefix string, n *unstable.Node) {
	w.value(w.key(prefix, n, false), n.Value())
}

// value goes on into inline tables and arrays.
func (w *lineWalker) value(path string, v *unstable.Node) {
	i := 0
	for it := v.Children(); it.Next(); i++ {
		switch child := it.Node(); child.Kind {
		case unstable.KeyValue:
			w.keyValue(path, child)
		case unstable.InlineTable, unstable.Array:
			w.value(fmt.Sprintf("%s[%d]", path, i), child)
		}
	}
}

// suggest is ": did you mean …" with the nearest key that a scenario file knows, empty if none is near.
func suggest(key string) string {
	best, distance := "", 3
	for _, known := range knownKeys(reflect.TypeFor[dialogue.Scenario](), nil) {
		if d := editDistance(key, known); d < distance {
			best, distance = known, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", best)
}

// knownKeys collects the TOML names of a struct type and of the structs inside it.
func knownKeys(t reflect.Type, keys []string) []string {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return keys
	}
	for i := range t.NumField() {
		f := t.Field(i)
		keys = append(keys, f.Tag.Get("toml"))
		keys = knownKeys(f.Type, keys)
	}
	return keys
}

// editDistance is Levenshtein's, on bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
