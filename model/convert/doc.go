// Package convert turns a GGUF file into a Hugging Face directory and back. It streams: no more than a few rows of one
// tensor are in memory. The result appears under its name only when it is complete.
package convert
