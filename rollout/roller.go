package rollout

import (
	"errors"
	"fmt"

	"seadtrain/dialogue"
	"seadtrain/internal/doctor"
	"seadtrain/internal/precision"
	"seadtrain/model"
	"seadtrain/model/chat"
	"seadtrain/model/tokenizer"
	"seadtrain/torch"
)

// Parts are what a Roller plays with. They stay the caller's.
type Parts struct {
	Scenario  *dialogue.Scenario
	Tokenizer *tokenizer.Tokenizer
	Template  *chat.Template
	Agent     *model.Model // the policy
	// Frozen is the role-play model, whose weights must not change while the Roller lives. It may be Agent itself: then they
	// change with Request.Version. Nil: users come from a UserSource only.
	Frozen *model.Model
}

// Roller plays dialogues of one scenario. It is used by one goroutine.
type Roller struct {
	cfg    Config
	scn    *dialogue.Scenario // a copy with the config's turn limit
	tok    *tokenizer.Tokenizer
	chat   *chat.Template
	engine *Engine
	sides  [2]side // by dialogue.Role
	most   int     // dialogues at once

	selfPlay bool           // the role-play model is the agent: its weights change with the agent's version
	twins    []*model.Model // made here to generate with
}

// side is what a role's sequences are made of.
type side struct {
	role    Role
	weights *Weights // nil: no model plays this role
	form    form
	shared  []int32 // tokens that begin every dialogue's prompt
	open    []int32 // in front of an own turn
	guide   *guide  // nil in free mode
	stops   []int32 // tokens other than the end of turn that end a turn in free mode
}

// form is the type of the weights that a role generates with, and why.
type form struct {
	DType   torch.DType
	Because string
}

// New plans the caches and compiles the protocols. Close gives the memory back.
func New(cfg Config, p Parts) (*Roller, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	scn := *p.Scenario
	if cfg.MaxTurns > 0 {
		scn.MaxTurns = cfg.MaxTurns
	}
	r := &Roller{cfg: cfg, scn: &scn, tok: p.Tokenizer, chat: p.Template}
	sets := newSetTable(p.Agent.Config.VocabSize)
	for role, m := range []*model.Model{p.Agent, p.Frozen} {
		role := dialogue.Role(role)
		if err := r.prepare(role, sets); err != nil {
			return nil, fmt.Errorf("%s: %w", role, err)
		}
		if m == nil {
			continue
		}
		if n := m.Config.VocabSize; n != p.Agent.Config.VocabSize || n < p.Tokenizer.VocabSize() {
			return nil, fmt.Errorf("the %s's model has %d tokens, the agent's %d, the tokenizer %d: they must be of one family",
				role, n, p.Agent.Config.VocabSize, p.Tokenizer.VocabSize())
		}
		if n := r.sides[role].role.Context; n > m.MaxPositions() {
			return nil, fmt.Errorf("rollout.%s.context: %d: the model holds %d positions", role, n, m.MaxPositions())
		}
	}
	r.selfPlay = p.Frozen == p.Agent
	agent, frozen, err := r.generators(p)
	if err == nil {
		err = r.plan(agent, frozen, sets.sets)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// generators gives the models that the roles generate with: those of the parts, or twins of them.
func (r *Roller) generators(p Parts) (agent, frozen *model.Model, err error) {
	if agent, err = r.generator(dialogue.Agent, p.Agent, r.cfg.Precision); err != nil || p.Frozen == nil {
		return agent, nil, err
	}
	frozen, err = r.generator(dialogue.User, p.Frozen, r.cfg.UserPrecision)
	return agent, frozen, err
}

func (r *Roller) generator(role dialogue.Role, m *model.Model, name string) (*model.Model, error) {
	f, other := &r.sides[role].form, r.sides[1-role].form
	if m.Device != torch.CPU && name == "auto" {
		*f = form{m.DType, "auto: as the model is held"}
		return m, nil
	}
	var err error
	if f.DType, f.Because, err = precision.ForGeneration(name, m.DType); err != nil {
		return nil, err
	}
	switch {
	case m.Device != torch.CPU && f.DType == m.DType:
		return m, nil
	case r.selfPlay && len(r.twins) > 0 && other.DType == f.DType:
		return r.twins[0], nil
	}
	twin, err := m.Twin(f.DType)
	if err != nil {
		return nil, fmt.Errorf("the %s's weights to generate with: %w", role, err)
	}
	r.twins = append(r.twins, twin)
	return twin, nil
}

// prepare makes a role's fixed tokens and its guide.
func (r *Roller) prepare(role dialogue.Role, sets *setTable) (err error) {
	s := &r.sides[role]
	s.role = r.cfg.Agent
	system := dialogue.AgentPrompt(r.scn)
	if role == dialogue.User {
		s.role = r.cfg.User
		system, _ = dialogue.UserPrompt(r.scn, dialogue.Profile{})
	}
	if s.shared, err = r.chat.Opening(system); err != nil {
		return err
	}
	if s.open, err = r.chat.Prefix(chat.Assistant); err != nil {
		return err
	}
	if role == dialogue.User {
		// A profile goes on where the shared text ends; the tokens at the seam may merge, so Open compares.
		s.shared = s.shared[:max(0, len(s.shared)-len(r.chat.Suffix()))]
	} else {
		s.shared = append(s.shared, s.open...)
	}
	if need := len(s.shared) + s.turnRoom(); need > s.role.Context {
		return fmt.Errorf("a context of %d tokens does not hold the prompt (%d) and one turn (%d)", s.role.Context, len(s.shared), s.turnRoom())
	}
	if r.cfg.Mode == dialogue.Guided {
		s.guide, err = newGuide(r.scn.Protocol(role), r.tok, r.chat.EndOfTurn(), sets, s.role.MaxTokens)
		return err
	}
	for _, id := range r.tok.EOS {
		if id != r.chat.EndOfTurn() {
			s.stops = append(s.stops, id)
		}
	}
	return nil
}

// turnRoom is the most tokens that a turn can take; the end of turn may be forced behind a turn that is cut.
func (s *side) turnRoom() int { return s.role.MaxTokens + 1 }

// seam is the number of tokens at the end of a shared prompt that may merge with what follows, when a cache is planned.
const seam = 8

// blocks plans the cache: what the shared prompt takes once, and what a dialogue takes at worst beside it.
func (s *side) blocks() (once, each int) {
	shared := max(0, len(s.shared)-seam) / torch.BlockSize
	return blocksFor(len(s.shared) + 1), blocksFor(s.role.Context) - shared
}

// plan decides how many dialogues fit, allocates the caches and makes the engine.
func (r *Roller) plan(agent, frozen *model.Model, sets *torch.Sets) (err error) {
	agentOnce, agentEach := r.sides[dialogue.Agent].blocks()
	userOnce, userEach := r.sides[dialogue.User].blocks()
	once, each := int64(agentOnce)*agent.CacheBytes(), int64(agentEach)*agent.CacheBytes()
	if frozen != nil {
		once += int64(userOnce) * frozen.CacheBytes()
		each += int64(userEach) * frozen.CacheBytes()
	}
	limit, name := r.cacheLimit(agent)
	r.most = r.cfg.MaxDialogues
	if limit > 0 {
		r.most = int(min(int64(r.most), (limit-once)/each))
	}
	if tp := agent.TP(); tp.Size() > 1 { // ranks must admit alike
		err = torch.Do(func() { r.most = -int(tp.AllReduceMaxInPlace(torch.Of([]float64{float64(-r.most)})).Item()) })
		if err != nil {
			return err
		}
	}
	if r.most < 1 {
		return fmt.Errorf("%s: %d: one dialogue of %d + %d tokens needs %d", name, limit, r.cfg.Agent.Context, r.cfg.User.Context, once+each)
	}
	blocks, users := agentOnce+r.most*agentEach, userOnce+r.most*userEach
	if frozen == agent {
		blocks += users
	}
	a, u := &r.sides[dialogue.Agent], &r.sides[dialogue.User]
	if a.weights, err = NewWeights("agent", agent, blocks); err != nil {
		return err
	}
	all := []*Weights{a.weights}
	switch {
	case frozen == agent:
		u.weights = a.weights
	case frozen != nil:
		if u.weights, err = NewWeights("frozen", frozen, users); err != nil {
			return err
		}
		all = append(all, u.weights)
	}
	r.engine, err = NewEngine(sets, r.cfg.MaxRows, r.cfg.BatchInvariant, all...)
	return err
}

// availableMemory is a variable for tests.
var availableMemory = doctor.AvailableMemory

// cacheLimit is the most that the caches may take, in bytes, and what says so. 0: no limit.
func (r *Roller) cacheLimit(m *model.Model) (limit int64, name string) {
	if r.cfg.CacheBytes > 0 || m.Device != torch.CPU {
		return r.cfg.CacheBytes, "rollout.cache_bytes"
	}
	return availableMemory() / 2 / int64(m.TP().Size()), "half of the free memory"
}

// CacheBytes is the memory of the KV caches, planned for so many dialogues at once.
func (r *Roller) CacheBytes() int64 {
	_, all := r.engine.CacheBytes()
	return all
}

// Sets is the table of allowed sets that traces name: the trainer's too.
func (r *Roller) Sets() *torch.Sets { return r.engine.Sets }

// Dialogues is the number of dialogues that run at once.
func (r *Roller) Dialogues() int { return r.most }

// Form is the type of the weights that a role generates with, and why.
func (r *Roller) Form(role dialogue.Role) (dtype torch.DType, because string) {
	f := r.sides[role].form
	return f.DType, f.Because
}

// Close frees the caches and twins.
func (r *Roller) Close() {
	a, u := r.sides[dialogue.Agent].weights, r.sides[dialogue.User].weights
	if err := torch.Do(func() {
		if a != nil {
			a.Close()
		}
		if u != nil && u != a {
			u.Close()
		}
		for _, m := range r.twins {
			m.Close()
		}
	}); err != nil {
		panic(errors.Join(errors.New("rollout: closing the caches"), err))
	}
}

// newTurn makes the constraint of a role's message.
func (r *Roller) newTurn(role dialogue.Role) turn {
	s := &r.sides[role]
	if s.guide != nil {
		return newGuidedTurn(s.guide, s.role.MaxTokens)
	}
	return &freeTurn{end: r.chat.EndOfTurn(), stops: s.stops, left: s.role.MaxTokens}
}
