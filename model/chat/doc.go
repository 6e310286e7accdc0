// Package chat turns messages into the tokens that chat models were trained on: the ChatML family (Qwen2.5, Qwen3,
// SmolLM2, the nano model), in which a turn is
//
//	<|im_start|>role\ncontent<|im_end|>\n
//
// There are two ways to use it.
//
// Render gives a whole conversation, token for token what Hugging Face's apply_chat_template gives. It is for SFT, for
// scoring, and for comparing with others.
//
// Opening, Turn, Prefix and Suffix give the pieces, for a conversation that only ever grows: what was sampled is what is
// trained, so history is never rendered again. The pieces differ from Render in two places:
//
//   - A content that begins with a line break: Render encodes "role\n" and content in one go, and both line breaks may
//     become one token; the pieces meet at a fixed border.
//   - Qwen3: its template drops the thought of earlier assistant turns when it renders history, and writes an empty one,
//     "<think>\n\n</think>\n\n", only in front of the last turn. With thinking off, Prefix(Assistant) writes the empty
//     thought in front of every turn, where it then stays: each turn is sampled after exactly the tokens after which the
//     template would have it sampled, but sees the empty thoughts of the turns before it.
//
// In both, content is text that a person or a model wrote: a special token's name in it stays plain text, where Hugging
// Face would end the turn. Tools are not supported.
//
// A model's template is a Jinja program; it is not run but recognised by its features, and refused if it has others.
package chat
