package nano

// Outcome is how the user takes one act. It alone decides how the state moves (the table below), so a model that names
// the outcome in its thought has done the hard part, and an agent that hears it knows what moved.
type Outcome int

const (
	Confused   Outcome = iota // the agent talked nonsense
	Identified                // says who it is
	Who                       // will not talk to a stranger about this
	Again                     // has been asked that before
	Interest                  // would like that
	Doubt                     // does not believe the story
	Known                     // knows that already
	Unclear                   // what is this about?
	Believe                   // trusts a little more
	Soft                      // feels better
	Fine                      // has nothing against it
	Helped                    // finds it easier now
	Pleased                   // enjoys the talk
	Bored                     // does not care for talk
	Bothered                  // has no nerve for talk
	Persuaded                 // gives in to pressure
	Pressed                   // resents pressure
	Unheard                   // the worry was passed over
	Waiting                   // kind words, but the worry stays
	Fuming                    // the worry was passed over once too often
	Relief                    // the worry is answered
	Assured                   // the doubt is answered
	Done                      // did what was asked on the phone
	Refuse                    // does not feel like doing it
	Distrust                  // does not trust the caller enough to do it
	Upset                     // too angry to do it
	Wrong                     // does not see that on the screen
	Premature                 // nothing has arrived
	Agree                     // the credit is there
	Farewell                  // the agent left
	HangUp                    // never a cause, only what is said when the user hangs up
	outcomes
)

// effect is how an outcome moves cooperation, emotion and trust; bad outcomes can make the user hang up at once.
type effect struct {
	word    string
	c, e, t int
	bad     bool
}

var effects = [outcomes]effect{
	Confused:   {"confused", 0, -1, -1, true},
	Identified: {"identified", 0, 0, 0, false},
	Who:        {"who", 0, 0, -1, true},
	Again:      {"again", 0, -1, 0, true},
	Interest:   {"interest", +1, 0, 0, false},
	Doubt:      {"doubt", 0, 0, 0, false},
	Known:      {"known", 0, 0, 0, false},
	Unclear:    {"unclear", 0, 0, 0, false},
	Believe:    {"believe", 0, 0, +1, false},
	Soft:       {"soft", 0, +1, 0, false},
	Fine:       {"fine", 0, 0, 0, false},
	Helped:     {"helped", +1, 0, 0, false},
	Pleased:    {"pleased", +1, +1, 0, false},
	Bored:      {"bored", 0, -1, 0, false},
	Bothered:   {"bothered", -1, -1, 0, true},
	Persuaded:  {"persuaded", +1, 0, 0, false},
	Pressed:    {"pressed", 0, -1, -1, true},
	Unheard:    {"unheard", -1, 0, 0, true},
	Waiting:    {"waiting", 0, 0, 0, false},
	Fuming:     {"fuming", -1, -1, 0, true},
	Relief:     {"relief", +1, +1, 0, false},
	Assured:    {"assured", 0, +1, +1, false},
	Done:       {"done", 0, 0, 0, false},
	Refuse:     {"refuse", 0, -1, 0, true},
	Distrust:   {"distrust", 0, -1, 0, true},
	Upset:      {"upset", -1, 0, 0, true},
	Wrong:      {"wrong", 0, -1, 0, true},
	Premature:  {"premature", -1, 0, 0, true},
	Agree:      {"agree", 0, 0, 0, false},
	Farewell:   {"farewell", 0, 0, 0, false},
	HangUp:     {"hangup", 0, 0, 0, false},
}

// String is the word for the outcome in the private thought.
func (o Outcome) String() string { return effects[o].word }
