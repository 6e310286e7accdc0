// Package safetensors reads and writes Hugging Face's safetensors files.
//
// A file is: 8 bytes of little-endian length N, N bytes of JSON header, then the tensors' bytes without gaps, row-major
// and little-endian. A model may be spread over several files, listed in model.safetensors.index.json.
//
// Reading maps the files into memory: a tensor's bytes are the file's pages, so a rank that takes only its rows never
// reads the others. The mapping is private (copy on write): writing into a tensor's bytes changes memory, not the file.
// A file that another process truncates while it is mapped kills this process; write new files instead, as Write does.
//
// Everything a header claims is checked before a byte of data is handed out, and errors name the file and the tensor.
package safetensors
