package dialogue

// Status values of a message and of a dialogue.
const (
	StatusFailed  = -1 // agent: gives up; user: refuses or hangs up
	StatusGoOn    = 0
	StatusSuccess = 1 // agent: claims success; user: agreed
)

// End says why a dialogue ended.
type End string

const (
	EndAgreed         End = "agreed"          // the user's status is 1
	EndHungUp         End = "hung_up"         // the user's status is -1
	EndGaveUp         End = "gave_up"         // the agent's status is -1
	EndTurnLimit      End = "turn_limit"      // MaxTurns reached
	EndContextLimit   End = "context_limit"   // no room left for a turn of the agent: counts as failure
	EndAgentMalformed End = "agent_malformed" // reward 0, stays in its group
	EndUserMalformed  End = "user_malformed"  // excluded from the group's statistics
	EndUserContext    End = "user_context"    // the role-play model's context is full: excluded
	EndInfrastructure End = "infrastructure"  // an error of ours or of an API: excluded
	EndCancelled      End = "cancelled"       // stopped by the caller: excluded
)

// Ends lists every end, for tables and counters.
var Ends = []End{
	EndAgreed, EndHungUp, EndGaveUp, EndTurnLimit, EndContextLimit, EndAgentMalformed, EndUserMalformed,
	EndUserContext, EndInfrastructure, EndCancelled,
}

// Excluded reports whether a dialogue that ended so says nothing about the agent.
func (e End) Excluded() bool {
	switch e {
	case EndUserMalformed, EndUserContext, EndInfrastructure, EndCancelled:
		return true
	}
	return false
}

// Message is one side's turn as it was written, tags and all.
type Message struct {
	Role    Role
	Content string // cleaned, see Clean
	// Values holds the parsed fields by tag; nil if the message was malformed.
	Values map[string]string
	// Fault classifies a malformed message; empty: well-formed.
	Fault  Fault
	Closed bool // guided mode: some text reached its token limit and was closed by force
}

// Trace is what one role's model saw and sampled, token by token: what was sampled is what is trained.
type Trace struct {
	Tokens      []int32   // prompt and history, only ever appended to
	Loss        []bool    // per token: sampled by the policy (trained), or given
	Sets        []int32   // per token: id of the allowed set it was drawn from; 0 = whole vocabulary
	LogProbs    []float32 // per token: log π(token) at sampling; 0 where Loss is false
	Temperature float64
}

// Episode is one finished dialogue. The reward lives here, so that no permutation can part it from its tokens.
type Episode struct {
	ID       string // unique within a run: "<step>-<profile index>-<member>"
	Profile  Profile
	Group    int // dialogues of one profile form a group
	Member   int
	Messages []Message
	End      End
	Reward   float64
	Turns    int // one turn = agent + user
	// ChatbotStatus is the agent's last status, FinalStatus the outcome (1 agreed, -1 refused or gave up, 0 neither).
	ChatbotStatus, FinalStatus int
	Seed                       uint64 // from which the dialogue's random streams were derived
	Err                        string // for EndInfrastructure: what happened
	Agent, User                Trace
}
