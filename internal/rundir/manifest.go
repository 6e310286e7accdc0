package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"seadtrain/dialogue"
)

const manifestName = "manifest.json"

// manifest names every file of a checkpoint by its path inside.
type manifest struct {
	Files map[string]entry `json:"files"`
}

type entry struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func writeManifest(dir string) error {
	m := manifest{Files: map[string]entry{}}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		m.Files[filepath.ToSlash(name)], err = hashFile(path)
		return err
	})
	if err != nil {
		return err
	}
	return dialogue.AtomicWrite(filepath.Join(dir, manifestName), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(m)
	})
}

// Verify reports everything in which a checkpoint differs from its manifest.
func Verify(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return err
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("%s: %w", manifestName, err)
	}
	if len(m.Files) == 0 {
		return fmt.Errorf("%s names no files", manifestName)
	}
	var errs []error
	for name, want := range m.Files {
		got, err := hashFile(filepath.Join(dir, filepath.FromSlash(name)))
		switch {
		case err != nil:
			errs = append(errs, err)
		case got.Bytes != want.Bytes:
			errs = append(errs, fmt.Errorf("%s has %d bytes, the manifest says %d", name, got.Bytes, want.Bytes))
		case got.SHA256 != want.SHA256:
			errs = append(errs, fmt.Errorf("%s: its SHA-256 is not the manifest's", name))
		}
	}
	return errors.Join(errs...)
}

func hashFile(path string) (entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return entry{Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}
