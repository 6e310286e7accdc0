// Package models holds the model that ships inside the binary.
package models

import "embed"

// Files has one folder per embedded model, a Hugging Face directory each.
//
//go:embed nano
var Files embed.FS
