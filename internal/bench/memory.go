package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
)

// growth is by how many bytes the process's resident memory rises, at its peak, while f runs.
func growth(f func() error) (float64, error) {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins anew
		return 0, err
	}
	before, err := resident("VmRSS:")
	if err == nil {
		err = f()
	}
	if err != nil {
		return 0, err
	}
	peak, err := resident("VmHWM:")
	return peak - before, err
}

// resident reads a field of the process's status, in bytes.
func resident(field string) (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte(field))
	var kb float64
	if _, err := fmt.Sscanf(string(rest), "%f kB", &kb); err != nil {
		return 0, fmt.Errorf("/proc/self/status, %s %w", field, err)
	}
	return kb * 1024, nil
}
