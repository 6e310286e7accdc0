package nano

import "fmt"

// Worry is what occupies the user at the moment. Each behaviour of the scenario's library brings up one worry, again
// and again; until the agent answers it with its remedy nothing else is heard.
type Worry int

const (
	NoWorry    Worry = iota
	Rush             // busy
	Scam             // suspicious
	Money            // thrifty
	SmallPrint       // pedantic
	Screen           // clumsy
	Story            // chatty
	Past             // bitter
	Noise            // distracted
	Size             // modest
	Rival            // loyal
	Doubts           // hesitant
	Robot            // mocking
	worries
)

// trait is one behaviour: the worry it brings, what answers that worry, and from which progress on it can come up.
type trait struct {
	id     string // the behaviour's id in the scenario files
	word   string // the worry in the private thought
	remedy Act
	trust  bool // the answer earns trust; otherwise cooperation
	from   Progress
}

var traits = [worries]trait{
	NoWorry:    {"", "none", Nonsense, false, Stranger},
	Rush:       {"busy", "rush", Brief, false, Stranger},
	Scam:       {"suspicious", "scam", Proof, true, Stranger},
	Money:      {"thrifty", "money", Free, true, Met},
	SmallPrint: {"pedantic", "rules", Terms, true, Told},
	Screen:     {"clumsy", "screen", Guide, false, Told},
	Story:      {"chatty", "story", Chat, false, Met},
	Past:       {"bitter", "past", Comfort, false, Stranger},
	Noise:      {"distracted", "noise", Repeat, false, Met},
	Size:       {"modest", "size", Example, false, Told},
	Rival:      {"loyal", "rival", Example, false, Met},
	Doubts:     {"hesitant", "doubts", Terms, true, Told},
	Robot:      {"mocking", "robot", Proof, true, Stranger},
}

// String is the word for the worry in the private thought.
func (w Worry) String() string { return traits[w].word }

// Remedy is the one act that answers the worry.
func (w Worry) Remedy() Act { return traits[w].remedy }

// WorryOf is the worry that a behaviour of the scenario brings.
func WorryOf(behaviour string) (Worry, error) {
	for w := Rush; w < worries; w++ {
		if traits[w].id == behaviour {
			return w, nil
		}
	}
	return NoWorry, fmt.Errorf("behaviour %q is unknown to the nano world: it knows %v", behaviour, behaviours())
}

func behaviours() []string {
	var ids []string
	for w := Rush; w < worries; w++ {
		ids = append(ids, traits[w].id)
	}
	return ids
}
