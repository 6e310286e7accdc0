package dialogue

import (
	"reflect"
	"strings"
	"testing"
)

func TestProfileID(t *testing.T) {
	// sha256 of ["outbound","en",[3,1,0],["cost.who-pays","rules.why-me"]], first 12 digits; made with Python's hashlib
	s := &Scenario{Name: "outbound", Language: "en"}
	p := s.NewProfile(State{3, 1, 0}, []string{"rules.why-me", "cost.who-pays"})
	if p.ID != "466e93cc816c" {
		t.Errorf("id %s", p.ID)
	}
	if !reflect.DeepEqual(p.Behaviours, []string{"cost.who-pays", "rules.why-me"}) {
		t.Errorf("behaviours not sorted: %v", p.Behaviours)
	}
	p.Behaviours[0], p.Behaviours[1] = p.Behaviours[1], p.Behaviours[0]
	if id := ProfileID(p); id != p.ID {
		t.Errorf("the order of behaviours changes the id to %s", id)
	}
	// ["outbound","zh",[],[]]: a profile without state has an id too, and nil and empty are one
	zh := &Scenario{Name: "outbound", Language: "zh"}
	if a, b := zh.NewProfile(nil, nil), zh.NewProfile(State{}, []string{}); a.ID != "81dfe8af03db" || a.ID != b.ID {
		t.Errorf("ids %s and %s", a.ID, b.ID)
	}
	state := State{3, 1, 0}
	own := s.NewProfile(state, nil)
	state[0] = 0
	if own.State[0] != 3 {
		t.Error("the profile shares its caller's slice")
	}
}

func TestStateIndex(t *testing.T) {
	s := fixture() // 2×3
	if s.States() != 6 || s.StateIndex(State{1, 2}) != 5 || s.StateIndex(State{1, 0}) != 3 {
		t.Errorf("%d states, [1 2] at %d, [1 0] at %d", s.States(), s.StateIndex(State{1, 2}), s.StateIndex(State{1, 0}))
	}
	for i := range s.States() {
		if s.StateIndex(s.StateAt(i)) != i {
			t.Errorf("state %d is %s, which is state %d", i, s.StateAt(i), s.StateIndex(s.StateAt(i)))
		}
	}
	if got := (State{1, 2}).String(); got != "1-2" {
		t.Errorf("String %q", got)
	}
}

func TestConsistent(t *testing.T) {
	s := fixture()
	// a.calm goes with all; b.hurry not with patience 1; b.doubt not with patience 0 and not with trust 2
	for _, c := range []struct {
		st   State
		want []string
	}{
		{State{0, 0}, []string{"a.calm", "b.hurry"}},
		{State{1, 0}, []string{"a.calm", "b.doubt"}},
		{State{1, 2}, []string{"a.calm"}},
	} {
		var got []string
		for _, b := range s.ConsistentBehaviours(c.st) {
			got = append(got, b.ID)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("state %s: %v, want %v", c.st, got, c.want)
		}
	}
}

func TestCheckProfile(t *testing.T) {
	s := fixture()
	for _, good := range []Profile{
		s.NewProfile(State{0, 2}, []string{"b.hurry", "a.calm"}),
		s.NewProfile(State{0, 2}, nil),
		s.NewProfile(nil, nil),
	} {
		if err := s.CheckProfile(good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	foreign := s.NewProfile(State{0, 0}, nil)
	foreign.Language = "zh"
	for _, c := range []struct {
		p    Profile
		want string
	}{
		{s.NewProfile(State{1, 0}, []string{"b.hurry"}), `"b.hurry" contradicts patience 1`},
		{s.NewProfile(State{0, 3}, nil), "trust is 3, not within 0..2"},
		{s.NewProfile(State{0}, nil), "1 levels, the scenario 2 dimensions"},
		{s.NewProfile(nil, []string{"a.calm"}), "0 levels, the scenario 2 dimensions"},
		{s.NewProfile(State{0, 0}, []string{"c.other"}), `"c.other" is not in the library`},
		{s.NewProfile(State{0, 0}, []string{"a.calm", "a.calm"}), "without repetition"},
		{Profile{ID: "x", Scenario: "booking", Language: "en", State: State{0, 0}}, "id does not match"},
		{foreign, "booking/zh, not booking/en"},
	} {
		if err := s.CheckProfile(c.p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.p, err, c.want)
		}
	}
}

func TestUserPrompt(t *testing.T) {
	s := fixture()
	shared, own := UserPrompt(s, s.NewProfile(State{1, 0}, []string{"b.doubt", "a.calm"}))
	if shared != "You are a guest.\n\n" || own != "Patience long, trust 0: You stay calm.; You doubt." {
		t.Errorf("%q + %q", shared, own)
	}
	if again, own := UserPrompt(s, s.NewProfile(nil, nil)); again != shared || own != "" {
		t.Errorf("without a profile: %q + %q", again, own)
	}
	s.User.ProfileText, s.User.Join = "{state} | {behaviours}", ""
	if _, own := UserPrompt(s, s.NewProfile(State{0, 2}, []string{"a.calm", "b.hurry"})); own !=
		"patience 0 (short), trust 2 | You stay calm., You hurry." {
		t.Errorf("{state}: %q", own)
	}
	if got := AgentPrompt(s); got != "You book tables." {
		t.Errorf("agent prompt %q", got)
	}
}
