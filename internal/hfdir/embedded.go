package hfdir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"seadtrain/models"
)

// embeddedPrefix marks the name of a model inside the binary: "embedded:nano".
const embeddedPrefix = "embedded:"

// Resolve gives the directory of a model: a path as it is, "embedded:nano" unpacked into the user's cache folder (or the
// folder for temporary files), where it stays for the next time.
func Resolve(ref string) (string, error) {
	name, embedded := strings.CutPrefix(ref, embeddedPrefix)
	if !embedded {
		if _, err := os.Stat(ref); err != nil {
			if filepath.Base(ref) == "SmolLM2-135M-Instruct" {
				err = fmt.Errorf("%w: make smollm2 brings it", err)
			}
			return "", fmt.Errorf("model: %w", err)
		}
		return ref, nil
	}
	files, err := fs.Sub(models.Files, name)
	if err == nil {
		_, err = fs.Stat(files, "config.json")
	}
	if err != nil {
		return "", fmt.Errorf("model %q: the binary holds no such model; it has %s", ref, strings.Join(embeddedNames(), ", "))
	}
	var errs []error
	bases := []string{os.TempDir()}
	if cache, err := os.UserCacheDir(); err == nil {
		bases = []string{cache, os.TempDir()}
	}
	for _, base := range bases {
		dir, err := unpack(files, filepath.Join(base, "seadtrain"), name)
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("unpack model %q: %w", ref, errors.Join(errs...))
}

// embeddedNames lists the models in the binary.
func embeddedNames() []string {
	var names []string
	entries, _ := models.Files.ReadDir(".") // an embedded root always reads
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, embeddedPrefix+e.Name())
		}
	}
	return names
}

// unpack writes the files into base/<name>-<hash>, unless that holds them already. The hash keeps versions apart; the
// content is compared each time, since anything may have happened to a cache.
func unpack(files fs.FS, base, name string) (string, error) {
	content := map[string][]byte{}
	h := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		content[path] = data
		fmt.Fprintf(h, "%s %d\n", path, len(data))
		h.Write(data)
		return err
	})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, name+"-"+hex.EncodeToString(h.Sum(nil)[:6]))
	if same(dir, content) {
		return dir, nil
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(base, ".unpack-*.tmp")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	for path, data := range content {
		if err := os.WriteFile(filepath.Join(tmp, path), data, 0o644); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.Rename(tmp, dir); err != nil && !same(dir, content) { // another process may have been faster
		return "", err
	}
	return dir, nil
}

func same(dir string, content map[string][]byte) bool {
	for path, want := range content {
		got, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil || !bytes.Equal(got, want) {
			return false
		}
	}
	return true
}
