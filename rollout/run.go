package rollout

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"seadtrain/dialogue"
)

// Request asks for dialogues. The same request gives the same dialogues.
type Request struct {
	Profiles []dialogue.Profile
	Group    int    // dialogues per profile. 0 is refused
	Seed     uint64 // of all random streams
	Step     int    // part of ids, and so of the streams
	Tag      string // in front of ids, and so part of the streams: "eval-"
	// Offset is the place of Profiles[0] in the step's whole list: a data-parallel rank's share keeps ids and streams.
	Offset int
	// Version of the agent's weights: prompts stay in the cache while it is the same. 0: not known, compute them anew.
	Version uint64
	// Users plays the user. Nil: the frozen model does.
	Users dialogue.UserSource
	// AgentSampling and UserSampling replace the config's. Nil: the config's.
	AgentSampling, UserSampling *Sampling
	// Progress is told now and then, and at the end, by the goroutine of Run. Nil: nobody is.
	Progress func(Progress)
}

func (q *Request) validate(r *Roller) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("rollout request: "+format, args...)) }
	if q.Group < 1 {
		bad("group %d: want 1 or more", q.Group)
	}
	for i, p := range q.Profiles {
		if err := r.scn.CheckProfile(p); err != nil {
			bad("profile %d: %w", i, err)
		}
	}
	for _, s := range []*Sampling{q.AgentSampling, q.UserSampling} {
		if s != nil {
			errs = append(errs, s.Validate())
		}
	}
	if q.Users == nil && r.sides[dialogue.User].weights == nil {
		bad("neither a user source nor a role-play model")
	}
	if q.Users != nil && r.cfg.UserDeadline > 0 && r.sides[dialogue.Agent].weights.Model.TP().Size() > 1 {
		bad("users with a deadline answer at different times on each tensor-parallel rank: use one rank")
	}
	return errors.Join(errs...)
}

// seedOf derives a dialogue's seed from the request's and the dialogue's id.
func seedOf(seed uint64, id string) uint64 {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64([]byte("dialogue "), seed), id...))
	return binary.LittleEndian.Uint64(sum[:])
}

// streamOf is a role's random stream within a dialogue.
func streamOf(seed uint64, role dialogue.Role) *rand.PCG {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64([]byte("stream "), seed), role.String()...))
	return rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]))
}

// running is the state of one Run.
type running struct {
	*Roller
	q        Request
	sampling [2]Sampling
	result   Result
	bySeq    map[*Sequence]*play
	next     int     // dialogue to be admitted next
	live     []*play // in order of admission
	prompt   struct {
		profile int
		ids     []int32
	}
	replies  chan reply // of users with a deadline
	awaited  int
	progress Progress
	began    time.Time
	told     time.Time
}

// Run plays one dialogue per profile and group member. When ctx ends, the error is ctx's and the result holds what was
// done. With ErrTooManyExcluded the result is complete.
func (r *Roller) Run(ctx context.Context, q Request) (*Result, error) {
	u, err := r.begin(q)
	if err != nil {
		return nil, err
	}
	if err = u.prefixes(ctx); err == nil {
		for more := true; more && err == nil; {
			more, err = u.step(ctx)
			u.tell(false)
		}
	}
	u.end(err)
	u.tell(true)
	if err == nil {
		err = u.result.excluded(r.cfg.MaxExcluded)
	}
	return &u.result, err
}

// begin sets up a run.
func (r *Roller) begin(q Request) (*running, error) {
	if err := q.validate(r); err != nil {
		return nil, err
	}
	total := len(q.Profiles) * q.Group
	u := &running{
		Roller: r, q: q, bySeq: map[*Sequence]*play{}, replies: make(chan reply, total), began: time.Now(),
		sampling: [2]Sampling{r.cfg.Agent.Sampling, r.cfg.User.Sampling},
	}
	for role, s := range []*Sampling{q.AgentSampling, q.UserSampling} {
		if s != nil {
			u.sampling[role] = *s
		}
	}
	u.prompt.profile = -1
	u.progress.Total = total
	u.result.Stats = newStats(total)
	r.engine.Forwards, r.engine.Rows = 0, 0
	u.result.Episodes = make([]*dialogue.Episode, total)
	return u, nil
}

// step admits what fits and runs one engine step; false when every dialogue is over.
func (u *running) step(ctx context.Context) (more bool, err error) {
	if err := u.admit(ctx); err != nil {
		return false, err
	}
	u.hear(ctx, !u.engine.Busy())
	over, err := u.engine.Step(ctx)
	if err != nil {
		return false, err
	}
	for _, s := range over {
		u.spoke(ctx, u.bySeq[s], s)
	}
	return len(u.live) > 0 || u.next < u.progress.Total, nil
}

// end closes what is still running, cancelled or struck by an error that is not its own, and completes the result.
func (u *running) end(err error) {
	for len(u.live) > 0 {
		p := u.live[0]
		if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			u.finish(p, p.outcome.Stop(dialogue.EndCancelled), "")
		} else {
			u.fail(p, err)
		}
	}
	st := &u.result.Stats
	st.Forwards, st.Rows, st.Elapsed = u.engine.Forwards, u.engine.Rows, time.Since(u.began)
	u.result.Episodes = slices.DeleteFunc(u.result.Episodes, func(ep *dialogue.Episode) bool { return ep == nil })
}

// prefixes computes the shared prompts that are not in the cache yet.
func (u *running) prefixes(ctx context.Context) error {
	agent, user := &u.sides[dialogue.Agent], &u.sides[dialogue.User]
	if err := agent.weights.SetVersion(u.q.Version); err != nil {
		return err
	}
	if err := u.engine.Prefix(ctx, agent.weights, agent.shared); err != nil {
		return err
	}
	if u.q.Users != nil {
		return nil
	}
	if u.selfPlay && user.weights != agent.weights { // what is frozen has one version
		if err := user.weights.SetVersion(u.q.Version); err != nil {
			return err
		}
	}
	return u.engine.Prefix(ctx, user.weights, user.shared)
}

// admit starts dialogues in order while there is room for their worst case.
func (u *running) admit(ctx context.Context) error {
	for u.next < u.progress.Total && len(u.live) < u.most {
		p := u.newPlay(u.next)
		err := u.open(p)
		if errors.Is(err, ErrNoRoom) {
			u.leave(p)
			if len(u.live) > 0 {
				return nil
			}
			return err // by the plan of the caches, one dialogue always fits
		}
		u.next++
		u.live = append(u.live, p)
		if err != nil {
			u.fail(p, err)
		} else {
			u.speak(ctx, p, dialogue.Agent, nil)
		}
	}
	return nil
}

// tell reports progress, at most ten times a second but for the last time.
func (u *running) tell(last bool) {
	now := time.Now()
	if u.q.Progress == nil || !last && now.Sub(u.told) < 100*time.Millisecond {
		return
	}
	u.told = now
	p := &u.progress
	used, all := u.engine.CacheBytes()
	p.Running, p.Elapsed, p.Left, p.Cache = len(u.live), now.Sub(u.began), 0, float64(used)/float64(all)
	if p.Done > 0 {
		p.Left = time.Duration(float64(p.Elapsed) / float64(p.Done) * float64(p.Total-p.Done))
	}
	u.q.Progress(*p)
}
