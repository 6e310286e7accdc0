// Package gguf reads and writes llama.cpp's GGUF files, as far as the decoders of this program go: architectures llama,
// qwen2 and qwen3, tensors in F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K and Q6_K, byte-level BPE tokenizers.
//
// A file is: "GGUF", version, counts, metadata (key, type, value), tensor descriptions, padding, the tensors' bytes.
// Shapes are written innermost axis first; Shape here is Hugging Face's order. Files are mapped, and every count, length
// and offset is checked against the file before anything is allocated for it, so memory stays within a small multiple
// of the file's size whatever the file claims.
//
// Weights gives the tensors under Hugging Face's names and in its layout: llama.cpp keeps the rows of q and k of the
// llama architecture interleaved for its own rotary embedding, and they are put back here. ConfigJSON, TokenizerJSON and
// TokenizerConfigJSON give the files of a Hugging Face directory.
package gguf
