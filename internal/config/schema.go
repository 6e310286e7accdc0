package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/xrash/smetrics"
)

// schema is what a config struct can hold: its keys by their full path.
type schema struct {
	root reflect.Type
	keys map[string]reflect.Type
}

func newSchema(t reflect.Type) *schema {
	s := &schema{root: t, keys: map[string]reflect.Type{}}
	s.add("", t)
	return s
}

func (s *schema) add(prefix string, t reflect.Type) {
	for name, f := range fields(t) {
		s.keys[join(prefix, name)] = f
		if f.Kind() == reflect.Struct {
			s.add(join(prefix, name), f)
		}
	}
}

// fields are a struct's keys with the types of their values; embedded structs lend theirs.
func fields(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(out, fields(f.Type))
		case name == "-" || !f.IsExported():
		case name == "":
			panic(fmt.Sprintf("config: %v.%s has no toml name", t, f.Name))
		default:
			out[name] = f.Type
		}
	}
	return out
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// check walks a decoded document. The rest can be decoded beside an unknown key, not beside a value of a wrong type.
func (s *schema) check(path string, v any, t reflect.Type, bad func(key, problem string, unknown bool)) {
	switch t.Kind() {
	case reflect.Struct:
		table, ok := v.(map[string]any)
		if !ok {
			bad(path, kind(v)+": want a table", false)
			return
		}
		known := fields(t)
		for _, name := range slices.Sorted(maps.Keys(table)) {
			key := join(path, name)
			if f, ok := known[name]; ok {
				s.check(key, table[name], f, bad)
			} else {
				bad(key, "unknown key"+s.suggest(key), true)
			}
		}
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			bad(path, kind(v)+": want a list", false)
			return
		}
		for i, e := range list {
			s.check(fmt.Sprintf("%s[%d]", path, i), e, t.Elem(), bad)
		}
	default:
		if want := wanted(v, t); want != "" {
			bad(path, kind(v)+": want "+want, false)
		}
	}
}

// wanted says what a scalar should be, "" if it is that.
func wanted(v any, t reflect.Type) string {
	n, whole := v.(int64)
	switch t.Kind() {
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			return "true or false"
		}
	case reflect.String:
		if _, ok := v.(string); !ok {
			return "a string"
		}
	case reflect.Float64:
		if _, ok := v.(float64); !ok && !whole {
			return "a number"
		}
	case reflect.Int, reflect.Int64:
		if !whole {
			return "a whole number"
		}
	case reflect.Uint64:
		if !whole || n < 0 {
			return "a whole number, 0 or more"
		}
	default:
		panic(fmt.Sprintf("config: no rule for values of type %v", t))
	}
	return ""
}

func kind(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("the string %q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return fmt.Sprint(v)
}

// suggest is ": did you mean …" with the nearest known key: the same name in another table, or a name spelt alike.
func (s *schema) suggest(key string) string {
	best, least := "", 1<<30
	last := key[strings.LastIndex(key, ".")+1:]
	for _, k := range slices.Sorted(maps.Keys(s.keys)) {
		d := smetrics.WagnerFischer(key, k, 1, 1, 1)
		if l := smetrics.WagnerFischer(last, k[strings.LastIndex(k, ".")+1:], 1, 1, 1); l <= len(last)/3 {
			d = min(d, 2*l+1)
		}
		if d < least {
			best, least = k, d
		}
	}
	if least > 2+len(key)/3 {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", best)
}

// complete is the full path of a key that a message names by its end ("lr") or by its table and its end ("train.lr"), ""
// if there is none or more than one.
func (s *schema) complete(name string) string {
	if _, ok := s.keys[name]; ok {
		return name
	}
	dot := strings.LastIndex(name, ".")
	table, end := name[:dot+1], "."+name[dot+1:]
	found := ""
	for k := range s.keys {
		if strings.HasPrefix(k, table) && strings.HasSuffix(k, end) {
			if found != "" {
				return ""
			}
			found = k
		}
	}
	return found
}

// keyLines is the line of every key of a document that parses.
func keyLines(text []byte) map[string]int {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(text)
	table := ""
	key := func(prefix string, n *unstable.Node) string {
		for it := n.Key(); it.Next(); {
			k := it.Node()
			prefix = join(prefix, string(k.Data))
			if _, seen := lines[prefix]; !seen {
				lines[prefix] = p.Shape(k.Raw).Start.Line
			}
		}
		return prefix
	}
	var value func(path string, v *unstable.Node)
	value = func(path string, v *unstable.Node) {
		for it := v.Children(); it.Next(); {
			if child := it.Node(); child.Kind == unstable.KeyValue {
				value(key(path, child), child.Value())
			}
		}
	}
	for p.NextExpression() {
		switch n := p.Expression(); n.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = key("", n)
		case unstable.KeyValue:
			value(key(table, n), n.Value())
		}
	}
	return lines
}
