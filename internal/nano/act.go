package nano

// Act is what an agent's utterance does. The classifier reads it from the text; the dynamics know nothing else of the
// agent.
type Act int

const (
	Nonsense  Act = iota // none of the acts below
	Greet                // who is calling; is this the owner?
	Offer                // the free credit of 700 yuan
	Example              // a neighbour gained by it
	Free                 // it costs nothing
	Proof                // how to check that the caller is real
	Terms                // no obligation, the rules in one sentence
	Comfort              // understanding, an apology
	Brief                // it takes a minute
	Guide                // slowly, step by step
	Repeat               // the same again, louder
	Chat                 // small talk
	Push                 // pressure
	AskApp               // open the app
	AskBanner            // find the banner
	AskClaim             // press claim
	Check                // is the credit there?
	Bye                  // the agent ends the call
	acts
)

var actWords = [acts]string{"nonsense", "greets", "offers", "example", "free", "proof", "terms", "comfort", "brief",
	"guides", "repeats", "chats", "pushes", "app", "banner", "claim", "checks", "bye"}

// String is the word for the act in the private thought.
func (a Act) String() string { return actWords[a] }

// Acts lists every act an agent can choose to perform.
func Acts() []Act {
	all := make([]Act, 0, acts-1)
	for a := Greet; a < acts; a++ {
		all = append(all, a)
	}
	return all
}
