package dialogue

// Kind is the type of a tagged field's value.
type Kind string

const (
	Text Kind = "text" // free text without '<'
	Int  Kind = "int"  // a decimal number in [Min, Max]
	Enum Kind = "enum" // one of Values
)

// Field is one tagged field of a message: <Tag>value</Tag>.
type Field struct {
	Tag    string   `json:"tag"`
	Kind   Kind     `json:"kind"`
	Min    int      `json:"min,omitempty"`
	Max    int      `json:"max,omitempty"`
	Values []string `json:"values,omitempty"`
	// Means ties the tag to what the program does with it:
	//   "reply"        the only part the other side hears
	//   "private"      never leaves its owner
	//   "state:<dim>"  the user's true level, or the agent's estimate of it
	//   "noise", "stage", "status"
	Means string `json:"means"`
	// MaxTokens closes a text by force when it is reached in guided mode; 0: only the turn's own limit holds.
	MaxTokens int `json:"max_tokens,omitempty"`
}

// Protocol is the ordered list of fields a role writes in one message.
type Protocol struct {
	Fields []Field `json:"fields"`
}
