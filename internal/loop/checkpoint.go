package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"seadtrain/curriculum"
	"seadtrain/dialogue"
	"seadtrain/internal/config"
	"seadtrain/internal/hfdir"
	"seadtrain/internal/rundir"
	"seadtrain/model"
)

// state is trainer/state.json: what is neither the optimizer's nor the curriculum's.
type state struct {
	Step   int    `json:"step"`   // complete steps
	Frozen string `json:"frozen"` // SHA-256 of the role-play model's weights, the same in every checkpoint of a run
	Config string `json:"config"` // SHA-256 of the run directory's config.toml
}

// configSum is the hash of the directory's config.
func (r *run) configSum() (string, error) {
	text, err := os.ReadFile(r.dir.File("config.toml"))
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// checkpoint saves the run as it is after the last complete step, once.
func (r *run) checkpoint() error {
	if r.done == r.saved || r.done == 0 {
		return nil
	}
	slog.Debug("phase", "phase", "checkpoint", "step", r.done)
	start := time.Now()
	sum, err := r.stage.Frozen.Checksum()
	if err != nil {
		return err
	}
	if sum != r.frozen {
		return fmt.Errorf("step %d: the role-play model's weights have changed: their SHA-256 was %s, is %s", r.done, r.frozen, sum)
	}
	c, err := r.dir.WriteCheckpoint(r.done, r.fill)
	if err != nil {
		return err
	}
	r.saved = r.done
	slog.Debug("checkpoint", "path", c.Path, "seconds", time.Since(start).Seconds())
	return r.dir.Prune(r.cfg.Checkpoint.KeepLast)
}

func (r *run) fill(dir string) error {
	opts := model.SaveOptions{
		DType: hfdir.FileType(r.cfg.Checkpoint.DType, r.stage.Agent.Model), MaxShard: 5e9, Tensors: r.trainer.Optimizer.Masters(),
	}
	if err := r.stage.Agent.Save(dir, opts); err != nil {
		return err
	}
	own := filepath.Join(dir, "trainer")
	if err := r.trainer.Optimizer.Save(own); err != nil {
		return err
	}
	cfg, err := r.configSum()
	if err != nil {
		return err
	}
	text, err := json.Marshal(state{Step: r.done, Frozen: r.frozen, Config: cfg})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "state.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(own, "curriculum.json"), r.atDone, 0o644)
}

// resume takes up the newest checkpoint that verifies, and forgets what came after it.
func (r *run) resume() error {
	err := r.dir.Resume(func(c *rundir.Checkpoint) error {
		if err := r.restore(c.Trainer()); err != nil {
			return err
		}
		r.saved = r.done
		slog.Info("resumed", "checkpoint", c.Path, "step", r.done, "of", r.cfg.Steps())
		return nil
	})
	if err != nil {
		return err
	}
	return r.dir.Rewind(r.done)
}

func (r *run) restore(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "state.json"))
	if err != nil {
		return err
	}
	var st state
	if err := json.Unmarshal(text, &st); err != nil {
		return fmt.Errorf("state.json: %w", err)
	}
	if st.Frozen != r.frozen {
		return fmt.Errorf("the role-play model %s is not the one this run began with: its SHA-256 was %s, is %s", r.cfg.Model, st.Frozen, r.frozen)
	}
	if sum, err := r.configSum(); err != nil {
		return err
	} else if sum != st.Config {
		return fmt.Errorf("%s has been changed since: its SHA-256 was %s, is %s", r.dir.File("config.toml"), st.Config, sum)
	}
	users, err := os.ReadFile(filepath.Join(dir, "curriculum.json"))
	if err != nil {
		return err
	}
	if err := r.controller.Restore(users); err != nil {
		return err
	}
	if err := r.trainer.Optimizer.Load(dir); err != nil {
		return err
	}
	r.done = st.Step
	return nil
}

// OpenCurriculum gives the Profile Controller as it was when a checkpoint was written.
func OpenCurriculum(checkpoint string) (*dialogue.Scenario, *curriculum.Controller, error) {
	state, err := os.ReadFile(filepath.Join(checkpoint, "trainer", "curriculum.json"))
	if err != nil {
		return nil, nil, fmt.Errorf("%s is no checkpoint of a run: %w", checkpoint, err)
	}
	var cfg Config
	if err := config.Load(filepath.Join(checkpoint, "..", "..", "config.toml"), nil, &cfg); err != nil {
		return nil, nil, err
	}
	scn, err := OpenScenario(cfg.Scenario, cfg.Library)
	if err != nil {
		return nil, nil, err
	}
	users, err := curriculum.New(cfg.Curriculum, scn, cfg.seed("curriculum", 0))
	if err != nil {
		return nil, nil, err
	}
	return scn, users, users.Restore(state)
}
