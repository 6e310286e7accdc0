// Package config reads TOML files into the config structs of the program's parts. A struct arrives filled with its
// defaults; what the file and the overrides (key=value from the command line) do not name stays as it is. Nothing is
// guessed: an unknown key, a value of the wrong type and whatever the struct's own Validate finds are reported all at
// once, each with file and line, and an unknown key with the nearest known one.
package config
