package gguf

import (
	"errors"
	"fmt"
)

// reader looks up metadata and collects what is wrong, so that all of it is reported at once.
type reader struct {
	f    *File
	errs []error
}

func (r *reader) err() error {
	if err := errors.Join(r.errs...); err != nil {
		return fmt.Errorf("%s: %w", r.f.path, err)
	}
	return nil
}

func (r *reader) bad(key, want string) {
	if v, ok := r.f.meta[key]; ok {
		r.errs = append(r.errs, fmt.Errorf("metadata %s is %.60s: want %s", key, fmt.Sprint(v), want))
	} else {
		r.errs = append(r.errs, fmt.Errorf("metadata %s is missing: want %s", key, want))
	}
}

// int reads a whole number; def is for an absent key, -1 makes the key a must.
func (r *reader) int(key string, def int) int {
	switch v := r.f.meta[key].(type) {
	case uint64:
		if v < 1<<31 {
			return int(v)
		}
	case int64:
		if v >= 0 && v < 1<<31 {
			return int(v)
		}
	case nil:
		if def >= 0 {
			return def
		}
	}
	r.bad(key, "a whole number below 2^31")
	return 1
}

// float reads a number; def as in int.
func (r *reader) float(key string, def float64) float64 {
	switch v := r.f.meta[key].(type) {
	case float64:
		return v
	case uint64:
		return float64(v)
	case nil:
		if def >= 0 {
			return def
		}
	}
	r.bad(key, "a number")
	return 1
}

// str reads a text; an absent key gives "".
func (r *reader) str(key string) string {
	switch v := r.f.meta[key].(type) {
	case string:
		return v
	case nil:
		return ""
	}
	r.bad(key, "a text")
	return ""
}

func (r *reader) has(key string) bool { _, ok := r.f.meta[key]; return ok }
