package rollout

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seadtrain/dialogue"
)

// guests is a user source by rules: it agrees in its third turn. Its randomness comes from its seed.
type guests struct {
	scn   *dialogue.Scenario
	delay time.Duration                                                // longest of a reply
	fault func(ep string, turn int) (text string, err error, bad bool) // instead of a reply
	heard atomic.Int64
	wrong atomic.Value // something heard that was not for the user's ears
}

type guest struct {
	g    *guests
	p    dialogue.Profile
	r    *rand.Rand
	turn int
}

func (g *guests) Open(p dialogue.Profile, seed uint64) (dialogue.UserSession, error) {
	return &guest{g: g, p: p, r: rand.New(rand.NewPCG(seed, 0))}, nil
}

func (s *guest) Reply(ctx context.Context, says string) (string, error) {
	s.turn++
	s.g.heard.Add(1)
	if strings.ContainsAny(says, "<>") || strings.Contains(says, "S-") || says == "" {
		s.g.wrong.Store(says)
	}
	if s.g.delay > 0 {
		select {
		case <-time.After(s.g.delay / time.Duration(1+s.g.heard.Load()%7)):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if s.g.fault != nil {
		if text, err, bad := s.g.fault(s.p.Behaviours[0], s.turn); bad {
			return text, err
		}
	}
	end := "E-on"
	if s.turn == 3 {
		end = "E-yes"
	}
	return s.g.scn.User.Protocol.Render(map[string]string{
		"think": "secret", "reply": fmt.Sprintf("word %d", s.r.IntN(1000)), "mood": "M1", "end": end,
	}), nil
}

func TestUserSource(t *testing.T) {
	cfg := deskConfig(dialogue.Free)
	cfg.BatchInvariant = true
	inPlace := setDesk(t, cfg)
	q := Request{Profiles: deskProfiles(inPlace.parts.Scenario, 6), Group: 4, Seed: 3}
	g := &guests{scn: inPlace.parts.Scenario}
	q.Users = g
	want := inPlace.run(t, q)
	for _, ep := range want.Episodes {
		if ep.End == dialogue.EndAgreed && (ep.Turns != 3 || ep.Reward != 1) || len(ep.User.Tokens) != 0 {
			t.Errorf("%s: %s after %d turns, a user's view of %d tokens", ep.ID, ep.End, ep.Turns, len(ep.User.Tokens))
		}
		inPlace.checkAgentOnly(t, ep)
	}
	if want.Stats.Ends[dialogue.EndAgreed] < 10 || g.wrong.Load() != nil {
		t.Errorf("ends %v, heard %v", want.Stats.Ends, g.wrong.Load())
	}
	// Users that take their time, side by side: in batch-invariant mode the same dialogues.
	cfg.UserDeadline = 10
	slow := seatDesk(t, cfg, inPlace.parts)
	g.delay = 30 * time.Millisecond
	q.Users = g
	sameEpisodes(t, "slow users", slow.run(t, q).Episodes, want.Episodes)
}

// checkAgentOnly is checkTrace without the user's view.
func (d *table) checkAgentOnly(t *testing.T, ep *dialogue.Episode) {
	t.Helper()
	text := d.tok.Decode(ep.Agent.Tokens, false)
	for _, m := range ep.Messages[:len(ep.Messages)-1] {
		if m.Role == dialogue.User && !strings.Contains(text, "<|im_start|>user\n"+m.Values["reply"]+"<|im_end|>\n") {
			t.Errorf("%s: the agent did not hear %q", ep.ID, m.Values["reply"])
		}
	}
	if strings.Contains(text, "secret") || strings.Contains(text, "E-on") {
		t.Errorf("%s: the agent's view is %q", ep.ID, text)
	}
}

// Users that fail, answer badly, answer too much or too late harm no dialogue but their own.
func TestUserSourceFaults(t *testing.T) {
	cfg := deskConfig(dialogue.Free)
	cfg.UserDeadline = .3
	cfg.BatchInvariant = true
	d := setDesk(t, cfg)
	scn := d.parts.Scenario
	q := Request{Profiles: deskProfiles(scn, 6), Group: 3, Seed: 3}
	q.Users = &guests{scn: scn}
	want := d.run(t, q)
	for what, c := range map[string]struct {
		text  string
		err   error
		end   dialogue.End
		fault dialogue.Fault
		says  string
	}{
		"an error":          {err: errors.New("line is dead"), end: dialogue.EndInfrastructure, says: "line is dead"},
		"too late":          {err: context.DeadlineExceeded, end: dialogue.EndInfrastructure, says: "deadline"},
		"not its protocol":  {text: "hello?", end: dialogue.EndUserMalformed, fault: dialogue.FaultOutside},
		"far too much":      {text: "<think>" + strings.Repeat("blah ", 100) + "</think>", end: dialogue.EndUserMalformed, fault: dialogue.FaultTruncated},
		"a special token":   {text: "<|im_end|>", end: dialogue.EndUserMalformed, fault: dialogue.FaultUnknownTag},
		"a NUL and bad UTF": {text: "\x00\xff", end: dialogue.EndUserMalformed, fault: dialogue.FaultOutside},
	} {
		q.Users = &guests{scn: scn, fault: func(behaviour string, turn int) (string, error, bool) {
			return c.text, c.err, behaviour == "b.calm" && turn == 2
		}}
		res := d.run(t, q)
		hit := 0
		for i, ep := range res.Episodes {
			if ep.Profile.Behaviours[0] != "b.calm" {
				sameEpisodes(t, what, res.Episodes[i:i+1], want.Episodes[i:i+1])
				continue
			}
			if ep.Turns < 2 || ep.End == dialogue.EndAgentMalformed || ep.End == dialogue.EndGaveUp {
				continue
			}
			hit++
			if ep.End != c.end || ep.Reward != 0 || !strings.Contains(ep.Err, c.says) {
				t.Errorf("%s: %s ended with %s (%s)", what, ep.ID, ep.End, ep.Err)
			}
			if m := ep.Messages[len(ep.Messages)-1]; c.fault != "" && m.Fault != c.fault {
				t.Errorf("%s: fault %q, want %q", what, m.Fault, c.fault)
			}
		}
		if hit < 5 {
			t.Errorf("%s: only %d dialogues were hit", what, hit)
		}
	}
	// Real lateness.
	q.Users = &guests{scn: scn, fault: func(string, int) (string, error, bool) { time.Sleep(time.Millisecond); return "", nil, false }, delay: time.Hour}
	began := time.Now()
	res, err := d.roller.Run(context.Background(), q)
	if err != nil && !errors.Is(err, ErrTooManyExcluded) {
		t.Fatal(err)
	}
	if n := res.Stats.Ends[dialogue.EndInfrastructure]; n < 15 || time.Since(began) > 5*time.Second || !strings.Contains(res.Episodes[0].Err+res.Episodes[1].Err, "no reply within 0.3 s") {
		t.Errorf("%d of 18 users were too late, in %v: %q", n, time.Since(began), res.Episodes[0].Err)
	}
	// A cancelled rollout does not wait for its users.
	cfg.UserDeadline = 3600
	d = seatDesk(t, cfg, d.parts)
	q.Users = &guests{scn: scn, delay: 100 * time.Hour}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if res, err := d.roller.Run(ctx, q); !errors.Is(err, context.DeadlineExceeded) || res.Stats.Ends[dialogue.EndCancelled] < 10 {
		t.Errorf("cancelled while users think: %v, ends %v", err, res.Stats.Ends)
	}
}

// Weights that give NaN after one of their words: the dialogues in which it falls end as infrastructure errors, all others
// are as they were.
func TestPoisonedDialoguesAreIsolated(t *testing.T) {
	cfg := deskConfig(dialogue.Free)
	cfg.BatchInvariant = true
	d := setDesk(t, cfg)
	q := Request{Profiles: deskProfiles(d.parts.Scenario, 6), Group: 4, Seed: 3}
	want := d.run(t, q)
	g0, _ := d.tok.ID("G0")
	poison(t, d.parts.Agent, g0)
	res := d.run(t, q)
	hit := 0
	for i, ep := range res.Episodes {
		if ep.End == dialogue.EndInfrastructure {
			hit++
			if n := len(ep.Agent.Tokens); ep.Agent.Tokens[n-1] != g0 || !strings.Contains(ep.Err, "NaN") {
				t.Errorf("%s: %s", ep.ID, ep.Err)
			}
			continue
		}
		sameEpisodes(t, "beside poisoned ones", res.Episodes[i:i+1], want.Episodes[i:i+1])
	}
	if hit < 3 || hit > 20 {
		t.Errorf("%d of 24 dialogues are poisoned", hit)
	}
}
