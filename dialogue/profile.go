package dialogue

// State is one point of the user's hidden state: a level per dimension, in the scenario's order.
type State []int

// Profile is a user before the call: initial conditions only. What happens then is the role-play model's affair.
type Profile struct {
	ID         string   `json:"id"` // stable hash of the fields below
	Scenario   string   `json:"scenario"`
	Language   string   `json:"language"`
	State      State    `json:"state"`
	Behaviours []string `json:"behaviours"` // behaviour ids, sorted
}
