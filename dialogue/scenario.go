package dialogue

// Role is one of the two sides of a service dialogue.
type Role int

const (
	Agent Role = iota // the service agent: the policy that is trained
	User              // the role-play model, or whoever sits in its place
)

func (r Role) String() string {
	if r == Agent {
		return "agent"
	}
	return "user"
}

// Dimension is one axis of the user's hidden state, for example cooperation with levels 0..4.
type Dimension struct {
	Name   string   `json:"name" toml:"name"`               // "cooperation"; fields refer to it as "state:cooperation"
	Levels int      `json:"levels" toml:"levels"`           // number of levels: values are 0..Levels-1
	Labels []string `json:"labels,omitempty" toml:"labels"` // words for the levels, low to high; empty: the number itself
}

// Behaviour is one entry of the behaviour library.
type Behaviour struct {
	ID       string `json:"id" toml:"id"`             // stable name, unique in the scenario ("cost.hidden-fees")
	Category string `json:"category" toml:"category"` // one of the library's categories
	Text     string `json:"text" toml:"text"`         // how the role prompt states it
	// Contradicts lists the states it cannot go with: dimension name -> levels. A state is contradicted if any of its
	// dimensions has a listed level.
	Contradicts map[string][]int `json:"contradicts,omitempty" toml:"contradicts"`
}

// Stage is one step of the standard operating procedure.
type Stage struct {
	ID   int    `json:"id" toml:"id"`
	Name string `json:"name" toml:"name"`
	Goal string `json:"goal" toml:"goal"`
}

// Mode says who writes the tags.
type Mode string

const (
	Free   Mode = "free"   // the model writes the tags itself
	Guided Mode = "guided" // tag text is forced, values are sampled under a mask
)

// Scenario is everything that makes a service scene, as data, in one language.
type Scenario struct {
	Name       string      `json:"name" toml:"name"`         // "outbound"
	Language   string      `json:"language" toml:"language"` // "en", "zh"
	MaxTurns   int         `json:"max_turns" toml:"max_turns"`
	Dimensions []Dimension `json:"dimensions" toml:"dimensions"`
	Stages     []Stage     `json:"stages" toml:"stages"`
	Behaviours []Behaviour `json:"behaviours" toml:"behaviours"`
	Agent      Side        `json:"agent" toml:"agent"`
	User       Side        `json:"user" toml:"user"`
}

// Side is what one role is told and how it must answer.
type Side struct {
	// Prompt is the system prompt. The agent's is the same in every dialogue. The user's ends with {profile}, so that
	// all dialogues share the tokens before it.
	Prompt string `json:"prompt" toml:"prompt"`
	// ProfileText is the template of {profile} (user only). It names {behaviours} once and the state either as {state}
	// ("cooperation 3 (willing), emotion 1 (irritated), …") or dimension by dimension: {cooperation} is the level,
	// {cooperation.label} its word.
	ProfileText string `json:"profile_text,omitempty" toml:"profile_text"`
	// Join stands between two behaviours in {behaviours}; empty: ", ".
	Join     string   `json:"join,omitempty" toml:"join"`
	Protocol Protocol `json:"protocol" toml:"protocol"`
}

// States is the number of initial states of the grid, the product of all levels.
func (s *Scenario) States() int {
	n := 1
	for _, d := range s.Dimensions {
		n *= d.Levels
	}
	return n
}

// StateIndex is the row-major index of a state in the grid.
func (s *Scenario) StateIndex(st State) int {
	i := 0
	for k, d := range s.Dimensions {
		i = i*d.Levels + st[k]
	}
	return i
}

// StateAt is the inverse of StateIndex.
func (s *Scenario) StateAt(i int) State {
	st := make(State, len(s.Dimensions))
	for k := len(s.Dimensions) - 1; k >= 0; k-- {
		st[k] = i % s.Dimensions[k].Levels
		i /= s.Dimensions[k].Levels
	}
	return st
}
