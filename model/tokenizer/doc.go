// Package tokenizer turns text into token ids and back, for byte-level BPE tokenizers (Qwen2.5, Qwen3, SmolLM2, Llama 3,
// the nano model) in Hugging Face's tokenizer.json format. Splitting and merging is done by Hugging Face's Rust library
// through github.com/daulet/tokenizers; this package adds what that binding lacks and closes its traps:
//
//   - Two kinds of text. Encode is for what a person or a model wrote: it never yields a special token, so a sentence
//     that contains "<|im_end|>" cannot end a turn. EncodeRaw is for our own templates, where special tokens are meant.
//   - Nothing vanishes silently. NUL (which would cut the text), invalid UTF-8, and characters whose bytes the vocabulary
//     lacks (SmolLM2's lacks 21 bytes) become the replacement character U+FFFD in Encode, and are an error in EncodeRaw.
//     Text beyond MaxTextBytes is an error: the library may take a hundred times the text's size in memory.
//   - The bytes of every id, a decoder that works token by token, and sets of tokens by content, for guided decoding.
//   - Load checks the JSON before the Rust side sees it (two malformed forms would end the process), and afterwards that
//     the library numbers the tokens as the file does.
//
// A Tokenizer may be used from many goroutines.
package tokenizer
