// Package testenv is what tests ask of their surroundings. Tests only.
package testenv

import (
	"os"
	"testing"
)

// Missing ends a test that lacks something it needs, and says how to get it: a failure under CI, a skip elsewhere.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Nightly gives a soak its length: the short one, or the one of `make nightly`.
func Nightly(short, long int) int {
	if os.Getenv("SEAD_NIGHTLY") == "1" {
		return long
	}
	return short
}
