package rollout

import (
	"fmt"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/model"
	"seadtrain/torch"
)

// inType is a model written and loaded again in another type.
func inType(t *testing.T, m *model.Model, dt torch.DType) *model.Model {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir, model.SaveOptions{DType: dt}); err != nil {
		t.Fatal(err)
	}
	n, err := model.Load(dir, model.Options{DType: dt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = torch.Do(n.Close) })
	return n
}

// Narrower weights play as the exact ones do, nearly: the protocol holds, log-probs are off by what the type allows and not
// by nothing, and the exact weights (the KL reference's) are what they were, bit for bit. The chains' logits go up to 13: one is
// off by 13/512 in bf16 and 13/254 in int8, a log-prob by twice that; the user's is divided by its temperature of .9.
func TestPrecisionOfGeneration(t *testing.T) {
	tok, tmpl := byteTokenizer(t, deskWords...)
	parts := Parts{Scenario: desk(), Tokenizer: tok, Template: tmpl, Agent: markovModel(t, tok, agentChain, 13, 1), Frozen: markovModel(t, tok, userChain, 13, 2)}
	for _, c := range []struct {
		agent, user    string
		offA, offU     float64 // log-probs, at most; 0: exact
		dtypeA, dtypeU torch.DType
	}{
		{"fp32", "fp32", 0, 0, torch.F32, torch.F32},
		{"fp32", "int8", 0, .12, torch.F32, torch.I8},
		{"bf16", "fp32", .06, 0, torch.BF16, torch.F32},
		{"bf16", "int8", .06, .12, torch.BF16, torch.I8},
	} {
		t.Run(c.agent+"/"+c.user, func(t *testing.T) {
			reference, _ := parts.Frozen.Checksum()
			policy, _ := parts.Agent.Checksum()
			cfg := deskConfig(dialogue.Free)
			cfg.Precision, cfg.UserPrecision = c.agent, c.user
			d := seatDesk(t, cfg, parts)
			for role, want := range []torch.DType{c.dtypeA, c.dtypeU} {
				if got, why := d.roller.Form(dialogue.Role(role)); got != want || why != "asked for" {
					t.Errorf("%v generates in %v because %q", dialogue.Role(role), got, why)
				}
			}
			res := d.run(t, Request{Profiles: deskProfiles(parts.Scenario, 4), Group: 3, Seed: 5, Version: 1})
			var agent, user float64
			for _, ep := range res.Episodes {
				d.checkTrace(t, ep)
				agent = max(agent, logProbError(t, parts.Agent, &ep.Agent, d.roller.Sets()))
				user = max(user, logProbError(t, parts.Frozen, &ep.User, d.roller.Sets()))
			}
			t.Logf("log-probs are off by at most %.2g (agent) and %.2g (user)", agent, user)
			for what, x := range map[string][2]float64{"agent": {agent, c.offA}, "user": {user, c.offU}} {
				if off, most := x[0], x[1]; most == 0 && !(off <= 2e-5) || most > 0 && !(off > 1e-4 && off <= most) {
					t.Errorf("the %s's log-probs are off by %.2g, want %.2g", what, off, most)
				}
			}
			if st := res.Stats; st.Roles[0].FaultCount()+st.Roles[1].FaultCount() > 0 {
				t.Errorf("malformed: %v %v", st.Roles[0].Faults, st.Roles[1].Faults)
			}
			if now, _ := parts.Frozen.Checksum(); now != reference {
				t.Error("the reference has changed")
			}
			if now, _ := parts.Agent.Checksum(); now != policy {
				t.Error("the policy has changed")
			}
		})
	}
}

// A twin follows its agent: after a change of the weights under a new version dialogues are those of a new roller. Also when
// the agent plays both sides, in one type or in two.
func TestTwinsFollowTheAgent(t *testing.T) {
	for _, c := range []struct {
		user  string
		self  bool
		twins int
	}{{"bf16", false, 2}, {"bf16", true, 1}, {"int8", true, 2}, {"fp32", true, 2}} {
		t.Run(fmt.Sprint(c.user, c.self), func(t *testing.T) {
			tok, tmpl := byteTokenizer(t)
			cfg := deskConfig(dialogue.Guided)
			cfg.Agent.MaxTokens, cfg.User.MaxTokens, cfg.Agent.Context, cfg.User.Context = 110, 110, 1900, 1900
			cfg.Precision, cfg.UserPrecision = "bf16", c.user
			p := Parts{Scenario: desk(), Tokenizer: tok, Template: tmpl, Agent: randomModel(t, 3), Frozen: randomModel(t, 4)}
			if c.self {
				p.Frozen = p.Agent
			}
			d := seatDesk(t, cfg, p)
			if n := len(d.roller.twins); n != c.twins {
				t.Errorf("%d twins, want %d", n, c.twins)
			}
			q := Request{Profiles: deskProfiles(p.Scenario, 2), Group: 2, Seed: 3, Version: 1}
			before := d.run(t, q)
			if err := torch.Do(func() {
				for _, l := range p.Agent.Leaves() {
					l.Tensor.AddInPlace(torch.Randn(9, torch.F32, torch.CPU, l.Tensor.Shape()...), .05)
				}
			}); err != nil {
				t.Fatal(err)
			}
			q.Version = 2
			after := d.run(t, q)
			sameEpisodes(t, "a new roller", after.Episodes, seatDesk(t, cfg, p).run(t, q).Episodes)
			if fmt.Sprint(before.Episodes[0].Agent.LogProbs) == fmt.Sprint(after.Episodes[0].Agent.LogProbs) {
				t.Error("the new weights change nothing")
			}
		})
	}
}

// Rows are independent in every type: dialogues do not depend on what runs beside them.
func TestBatchInvariantInEveryPrecision(t *testing.T) {
	tok, tmpl := byteTokenizer(t, deskWords...)
	agent, user := markovModel(t, tok, agentChain, 13, 1), markovModel(t, tok, userChain, 13, 2)
	cfg := deskConfig(dialogue.Free)
	cfg.BatchInvariant, cfg.UserPrecision = true, "int8"
	for _, c := range []struct {
		name string
		held torch.DType
	}{{"bf16", torch.F32}, {"auto", torch.BF16}} { // auto takes what is held in bf16 as it is
		t.Run(c.name+" of "+c.held.String(), func(t *testing.T) {
			cfg := cfg
			cfg.Precision = c.name
			p := Parts{Scenario: desk(), Tokenizer: tok, Template: tmpl, Agent: inType(t, agent, c.held), Frozen: user}
			d := seatDesk(t, cfg, p)
			if dt, why := d.roller.Form(dialogue.Agent); dt != torch.BF16 {
				t.Errorf("the agent generates in %v: %s", dt, why)
			}
			q := Request{Profiles: deskProfiles(p.Scenario, 4), Group: 2, Seed: 4}
			want := d.run(t, q)
			cfg.MaxDialogues, cfg.MaxRows = 3, 7
			sameEpisodes(t, "3 dialogues, 7 rows", seatDesk(t, cfg, p).run(t, q).Episodes, want.Episodes)
		})
	}
}
