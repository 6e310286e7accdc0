package rollout

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"seadtrain/dialogue"
	"seadtrain/model/chat"
)

// play is one dialogue under way.
type play struct {
	index   int // in the result
	ep      *dialogue.Episode
	outcome dialogue.Outcome
	seqs    [2]*Sequence // by role; the user's is nil with a user source
	session dialogue.UserSession
	turn    turn    // of the role that speaks
	spoken  [2]bool // by role: it has had a turn
}

// newPlay is dialogue number i, before it has any resources.
func (u *running) newPlay(i int) *play {
	q := &u.q
	profile, member := i/q.Group, i%q.Group
	id := fmt.Sprintf("%s%d-%d-%d", q.Tag, q.Step, q.Offset+profile, member)
	return &play{index: i, ep: &dialogue.Episode{
		ID: id, Profile: q.Profiles[profile], Group: q.Offset + profile, Member: member, Seed: seedOf(q.Seed, id),
	}}
}

// open takes a dialogue's sequences, or its user.
func (u *running) open(p *play) (err error) {
	if err = u.seat(p, dialogue.Agent, u.sides[dialogue.Agent].shared); err != nil {
		return err
	}
	if u.q.Users != nil {
		p.session, err = u.q.Users.Open(p.ep.Profile, streamOf(p.ep.Seed, dialogue.User).Uint64())
		return err
	}
	ids, err := u.userPrompt(p.index / u.q.Group)
	if err != nil {
		return err
	}
	return u.seat(p, dialogue.User, ids)
}

// seat opens a role's sequence.
func (u *running) seat(p *play, role dialogue.Role, prompt []int32) error {
	side := &u.sides[role]
	o := SequenceOptions{Limit: side.role.Context, Sampling: u.sampling[role], Rand: rand.New(streamOf(p.ep.Seed, role))}
	if role == dialogue.User {
		o.Prompt = 1 + p.index/u.q.Group // the profile's
	}
	s, err := side.weights.Open(prompt, o)
	if err != nil {
		return fmt.Errorf("%s: %w", role, err)
	}
	p.seqs[role], u.bySeq[s] = s, p
	return nil
}

// userPrompt encodes a profile's prompt, once for its whole group.
func (u *running) userPrompt(profile int) ([]int32, error) {
	if u.prompt.profile != profile {
		shared, own := dialogue.UserPrompt(u.scn, u.q.Profiles[profile])
		ids, err := u.chat.Opening(shared + own)
		if err != nil {
			return nil, err
		}
		u.prompt.profile, u.prompt.ids = profile, ids
	}
	return u.prompt.ids, nil
}

// speak has a role take its turn, after what it hears: nil at the very beginning. The other side's words reach it as
// the text of their reply field, and nothing else.
func (u *running) speak(ctx context.Context, p *play, role dialogue.Role, hears *string) {
	if role == dialogue.User && p.session != nil {
		u.ask(ctx, p, *hears)
		return
	}
	s, side := p.seqs[role], &u.sides[role]
	var given []int32
	if hears != nil {
		if p.spoken[role] {
			given = append(given, u.chat.Suffix()[1:]...) // what follows its own end of turn
		}
		heard, err := u.chat.Turn(chat.User, *hears)
		if err != nil {
			u.fail(p, err)
			return
		}
		given = append(append(given, heard...), side.open...)
	}
	if len(given)+side.turnRoom() > s.Room() {
		end := dialogue.EndContextLimit
		if role == dialogue.User {
			end = dialogue.EndUserContext
		}
		u.finish(p, p.outcome.Stop(end), "")
		return
	}
	p.turn, p.spoken[role] = u.newTurn(role), true
	err := s.Append(given...)
	if err == nil {
		err = s.Generate(p.turn)
	}
	if err != nil {
		u.fail(p, err)
	}
}

// spoke takes a finished generation.
func (u *running) spoke(ctx context.Context, p *play, s *Sequence) {
	role := dialogue.Agent
	if s == p.seqs[dialogue.User] {
		role = dialogue.User
	}
	if s.Err() != nil {
		u.fail(p, fmt.Errorf("%s: %w", role, s.Err()))
		return
	}
	ids := s.Generated()
	if last := len(ids) - 1; ids[last] == u.chat.EndOfTurn() {
		ids = ids[:last]
	}
	u.progress.Tokens[role] += s.sampledNow()
	m := u.scn.ReadMessage(role, u.tok.Decode(ids, false), p.turn.cut())
	m.Closed = p.turn.closed()
	u.said(ctx, p, m)
}

// said adds a message and lets the referee decide who is next.
func (u *running) said(ctx context.Context, p *play, m dialogue.Message) {
	p.ep.Messages = append(p.ep.Messages, m)
	u.result.Stats.message(m)
	var err error
	if p.outcome, err = u.scn.Judge(p.ep.Messages); err != nil {
		u.fail(p, err)
		return
	}
	if p.outcome.Done {
		u.finish(p, p.outcome, "")
		return
	}
	hears := u.scn.UserHears(m)
	if m.Role == dialogue.User {
		hears = u.scn.AgentHears(m)
	}
	u.speak(ctx, p, p.outcome.Next, &hears)
}

// fail ends a dialogue by an error that is no one's fault in it; the others go on.
func (u *running) fail(p *play, err error) {
	u.finish(p, p.outcome.Stop(dialogue.EndInfrastructure), err.Error())
}

// finish ends a dialogue: its place and its blocks are free at once.
func (u *running) finish(p *play, o dialogue.Outcome, text string) {
	ep, st := p.ep, &u.result.Stats
	ep.Finish(o)
	ep.Err = text
	for role, trace := range []*dialogue.Trace{&ep.Agent, &ep.User} {
		if s := p.seqs[role]; s != nil {
			*trace = s.Trace
			st.Roles[role].sequence(s)
		}
	}
	u.leave(p)
	st.episode(ep)
	u.result.Episodes[p.index] = ep
	u.progress.Done++
	if !ep.End.Excluded() {
		u.progress.Counted++
		u.progress.Success += int(ep.Reward)
	}
}

// leave gives a dialogue's resources back.
func (u *running) leave(p *play) {
	for _, s := range p.seqs {
		if s != nil {
			delete(u.bySeq, s)
			s.Close()
		}
	}
	u.live = slices.DeleteFunc(u.live, func(q *play) bool { return q == p })
}
