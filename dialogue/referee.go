package dialogue

import "fmt"

// Outcome is where a dialogue stands: it goes on and Next speaks, or it has ended and the rest is final.
type Outcome struct {
	Done   bool
	Next   Role // who speaks now; meaningless once Done
	End    End
	Reward float64 // 1 when the user agreed, else 0
	// Turns counts the agent's messages: a turn begins with the agent and counts from then on, so a dialogue that the
	// agent's own message ends has that turn too.
	Turns         int
	ChatbotStatus int // the agent's last well-formed status
	FinalStatus   int
}

// Judge decides from the messages so far whether the dialogue goes on. It is pure; the agent speaks first.
//   - agent malformed: ends, reward 0; user malformed: ends, excluded
//   - agent's status -1: ends as failure. Its status 1 is a claim and ends nothing.
//   - user's status 1 or -1: ends as success or refusal
//   - MaxTurns turns are over: ends as failure
//
// The error is for callers' mistakes: roles that do not take turns, or messages after the end.
func (s *Scenario) Judge(messages []Message) (Outcome, error) {
	o := Outcome{Next: Agent}
	for i, m := range messages {
		if o.Done {
			return o, fmt.Errorf("message %d comes after the dialogue's end (%s)", i, o.End)
		}
		if m.Role != o.Next {
			return o, fmt.Errorf("message %d is the %s's, but it is the %s's turn", i, m.Role, o.Next)
		}
		if m.Role == Agent {
			s.hearAgent(&o, m)
		} else {
			s.hearUser(&o, m)
		}
	}
	return o, nil
}

func (s *Scenario) hearAgent(o *Outcome, m Message) {
	o.Turns++
	o.Next = User
	status, ok := s.Agent.Protocol.Status(m.Values)
	if m.Fault != "" || !ok {
		o.end(EndAgentMalformed, StatusGoOn)
		return
	}
	o.ChatbotStatus = status
	if status == StatusFailed {
		o.end(EndGaveUp, StatusFailed)
	}
}

func (s *Scenario) hearUser(o *Outcome, m Message) {
	o.Next = Agent
	status, ok := s.User.Protocol.Status(m.Values)
	switch {
	case m.Fault != "" || !ok:
		o.end(EndUserMalformed, StatusGoOn)
	case status == StatusSuccess:
		o.end(EndAgreed, StatusSuccess)
	case status == StatusFailed:
		o.end(EndHungUp, StatusFailed)
	case o.Turns >= s.MaxTurns:
		o.end(EndTurnLimit, StatusGoOn)
	}
}

func (o *Outcome) end(e End, final int) {
	o.Done, o.End, o.FinalStatus = true, e, final
	if e == EndAgreed {
		o.Reward = 1
	}
}

// Stop ends a dialogue that goes on by its messages for a reason that lies outside them: a full context, an error, a
// cancellation. A dialogue that has ended already keeps its end.
func (o Outcome) Stop(e End) Outcome {
	if !o.Done {
		o.end(e, StatusGoOn)
	}
	return o
}

// Finish writes the outcome into the episode.
func (ep *Episode) Finish(o Outcome) {
	ep.End, ep.Reward, ep.Turns = o.End, o.Reward, o.Turns
	ep.ChatbotStatus, ep.FinalStatus = o.ChatbotStatus, o.FinalStatus
}

// AgentHears is all that the agent learns of a user's message: the reply, without private thought and state. A
// malformed message says nothing.
func (s *Scenario) AgentHears(m Message) string { return s.User.Protocol.Reply(m.Values) }

// UserHears is all that the user learns of an agent's message: the reply, without estimates, stage and status.
func (s *Scenario) UserHears(m Message) string { return s.Agent.Protocol.Reply(m.Values) }

// Protocol is the form in which that role writes.
func (s *Scenario) Protocol(r Role) *Protocol {
	if r == Agent {
		return &s.Agent.Protocol
	}
	return &s.User.Protocol
}

// ReadMessage parses what a role wrote, and keeps it, cleaned. cut says that it was cut at its token limit, so that a
// fault is counted as truncation.
func (s *Scenario) ReadMessage(r Role, text string, cut bool) Message {
	values, fault := s.Protocol(r).Parse(text)
	if fault != "" && cut {
		fault = FaultTruncated
	}
	return Message{Role: r, Content: Clean(text), Values: values, Fault: fault}
}
