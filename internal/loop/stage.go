package loop

import (
	"fmt"
	"log/slog"
	"strings"

	"seadtrain/dialogue"
	"seadtrain/internal/hfdir"
	"seadtrain/internal/nano"
	"seadtrain/internal/precision"
	"seadtrain/model"
	"seadtrain/rollout"
	"seadtrain/scenarios"
	"seadtrain/torch"
)

// Stage is a scenario with the two models that play it.
type Stage struct {
	Scenario *dialogue.Scenario
	Agent    *hfdir.Bundle // the policy; its tokenizer and template serve both sides
	Frozen   *model.Model  // the role-play model
	Roller   *rollout.Roller
	Rules    *nano.Rules // the world's true rules; nil unless the scenario is the nano world
}

// OpenScenario finds a scenario by name and language ("nano/en") or reads a TOML file. library, if given, replaces its
// behaviours.
func OpenScenario(ref, library string) (*dialogue.Scenario, error) {
	load := func() (*dialogue.Scenario, error) {
		if name, language, ok := strings.Cut(ref, "/"); ok && !strings.HasSuffix(ref, ".toml") {
			return scenarios.Load(name, language)
		}
		if !strings.HasSuffix(ref, ".toml") {
			return nil, fmt.Errorf("scenario %q: want a name and a language (there are %s), or a .toml file", ref, scenarioNames())
		}
		return scenarios.LoadFile(ref)
	}
	scn, err := load()
	if err != nil || library == "" {
		return scn, err
	}
	if scn.Behaviours, err = scenarios.LoadLibrary(library); err != nil {
		return nil, err
	}
	if problems := scn.Validate(); len(problems) > 0 {
		return nil, fmt.Errorf("scenario %s with library %s: %v", ref, library, problems[0])
	}
	return scn, nil
}

func scenarioNames() string {
	var names []string
	for _, r := range scenarios.List() {
		names = append(names, r.String())
	}
	return strings.Join(names, ", ")
}

// scene opens the scenario, and the world's rules if it has any.
func (c *Config) scene() (scn *dialogue.Scenario, rules *nano.Rules, err error) {
	if scn, err = OpenScenario(c.Scenario, c.Library); err == nil && scn.Name == "nano" {
		rules, err = nano.NewRules(scn)
	}
	return scn, rules, err
}

// Check tells before models are loaded what is wrong with the scenario and with those who are to play its users.
func (c *Config) Check(users ...string) (*dialogue.Scenario, error) {
	scn, rules, err := c.scene()
	for _, u := range users {
		if err == nil {
			_, err = userSource(u, scn, rules)
		}
	}
	return scn, err
}

// userSource is who plays the user; nil is the frozen model.
func userSource(name string, scn *dialogue.Scenario, rules *nano.Rules) (dialogue.UserSource, error) {
	switch {
	case name == Frozen:
		return nil, nil
	case name == Rules && rules != nil:
		return rules, nil
	case name == Rules:
		return nil, fmt.Errorf("user %q: only scenario nano has rules, this is %s", Rules, scn.Name)
	}
	return nil, fmt.Errorf("user %q: want %q or %q", name, Frozen, Rules)
}

// Open loads a stage. agent is the policy's directory; empty: the config's model. separate makes the policy a copy of its
// own, to be trained, even if it begins as the role-play model does.
func Open(cfg *Config, agent string, separate bool) (s *Stage, err error) {
	s = &Stage{}
	defer func() {
		if err != nil {
			s.Close()
			s = nil
		}
	}()
	if s.Scenario, s.Rules, err = cfg.scene(); err != nil {
		return s, err
	}
	dtype, reason, err := precision.Choose(cfg.DType)
	if err != nil {
		return s, err
	}
	threads := torch.SetNumThreads(cfg.Threads)
	opts := model.Options{DType: dtype}
	if agent == "" {
		agent = cfg.Model
	}
	base, err := hfdir.Resolve(cfg.Model)
	if err != nil {
		return s, err
	}
	if s.Agent, err = hfdir.Open(agent, opts); err != nil {
		return s, err
	}
	switch {
	case agent != cfg.Model:
		s.Frozen, err = model.Load(base, opts)
	case separate:
		s.Frozen, err = s.Agent.Model.Copy()
	default:
		s.Frozen = s.Agent.Model
	}
	if err != nil {
		return s, err
	}
	slog.Info("model", "agent", agent, "role_play", cfg.Model, "parameters", s.Frozen.NumParams(), "dtype", dtype, "because", reason, "threads", threads)
	if s.Roller, err = rollout.New(cfg.Rollout, s.parts()); err != nil {
		return s, err
	}
	for _, role := range []dialogue.Role{dialogue.Agent, dialogue.User} {
		dtype, reason := s.Roller.Form(role)
		slog.Info("generation weights", "role", role, "dtype", dtype, "because", reason)
	}
	slog.Info("generation plan", "dialogues_at_once", s.Roller.Dialogues(), "wanted", cfg.Rollout.MaxDialogues, "kv_cache_mb", s.Roller.CacheBytes()/1e6)
	return s, nil
}

func (s *Stage) parts() rollout.Parts {
	return rollout.Parts{
		Scenario: s.Scenario, Tokenizer: s.Agent.Tokenizer, Template: s.Agent.Chat, Agent: s.Agent.Model, Frozen: s.Frozen,
	}
}

// Close frees everything.
func (s *Stage) Close() {
	if s.Roller != nil {
		s.Roller.Close()
	}
	if s.Agent != nil {
		if s.Frozen == s.Agent.Model {
			s.Frozen = nil
		}
		s.Agent.Close()
	}
	if s.Frozen != nil {
		s.Frozen.Close()
	}
}
