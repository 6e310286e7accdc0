package dialogue

import "strings"

// replacement is U+FFFD, the mark of something that could not be shown.
const replacement = "�"

// Clean makes text that a person or a model wrote safe to store and to hand on: each NUL (the tokenizer library would
// cut the text there) and each run of invalid UTF-8 (a character cut by a token limit; JSON would change it silently)
// becomes U+FFFD. Nothing is removed, so no tag can form that was not there. That text can never become a special
// token is the tokenizer's guarantee, not this function's.
func Clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, replacement), "\x00", replacement)
}
