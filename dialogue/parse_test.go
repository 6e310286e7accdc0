package dialogue

import (
	"maps"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	p := &fixture().Agent.Protocol
	good := map[string]string{"response": "Hello!", "trust_score": "2", "stage": "0", "status": "-1"}
	const r, tr, st, end = "<response>Hello!</response>", "<trust_score>2</trust_score>", "<stage>0</stage>", "<status>-1</status>"
	for _, c := range []struct {
		name, text string
		fault      Fault
	}{
		{"no white space", r + tr + st + end, ""},
		{"separator", r + "\n" + tr + "\n" + st + "\n" + end, ""},
		{"white space everywhere it may be", " \r\n" + r + "\t\n " + tr + " " + st + "\n\n" + end + "\n", ""},
		{"white space inside values", "<response>\nHello! </response><trust_score> 2</trust_score><stage>0\n</stage><status> -1 </status>", ""},

		{"empty", "", FaultEmptyMessage},
		{"white space only", " \n\t", FaultEmptyMessage},
		{"no tags", "Hello!", FaultOutside},
		{"text before", "Sure: " + r + tr + st + end, FaultOutside},
		{"text between", r + "and" + tr + st + end, FaultOutside},
		{"no-break space is text", r + "\u00a0" + tr + st + end, FaultOutside},
		{"text after", r + tr + st + end + "Bye.", FaultTrailing},
		{"stray tag after", r + tr + st + end + "<b>", FaultTrailing},
		{"ends too early", r + tr + st, FaultMissingTag},
		{"ends in mid-tag", r + tr + st + "<stat", FaultMissingTag},
		{"field left out", r + st + end, FaultMissingTag},
		{"first field left out", tr + st + end, FaultMissingTag},
		{"two swapped", r + st + tr + end, FaultWrongOrder},
		{"last first", end + r + tr + st, FaultWrongOrder},
		{"twice in a row", r + r + tr + st + end, FaultDuplicate},
		{"again at the end", r + tr + st + end + r, FaultDuplicate},
		{"unknown tag", r + "<mood>3</mood>" + tr + st + end, FaultUnknownTag},
		{"tag in capitals", "<RESPONSE>Hello!</RESPONSE>" + tr + st + end, FaultUnknownTag},
		{"tag with attribute", `<response a="b">Hello!</response>` + tr + st + end, FaultUnknownTag},
		{"closing tag first", "</response>" + r + tr + st + end, FaultUnknownTag},
		{"runs to the end", "<response>Hello!", FaultUnterminated},
		{"runs into the next field", "<response>Hello!" + tr + st + end, FaultUnterminated},
		{"opened twice", "<response><response>Hello!</response>" + tr + st + end, FaultUnterminated},
		{"closed by another tag", "<response>Hello!</stage>" + tr + st + end, FaultUnterminated},
		{"cut in the closing tag", "<response>Hello!</resp", FaultUnterminated},
		{"less-than in text", "<response>a < b</response>" + tr + st + end, FaultAngle},
		{"markup in text", "<response>a <b>c</b></response>" + tr + st + end, FaultAngle},
		{"special token in text", "<response>a<|im_end|></response>" + tr + st + end, FaultAngle},
		{"empty reply", "<response> </response>" + tr + st + end, FaultEmptyReply},
		{"number too large", r + "<trust_score>3</trust_score>" + st + end, FaultBadValue},
		{"number too small", r + "<trust_score>-1</trust_score>" + st + end, FaultBadValue},
		{"plus sign", r + "<trust_score>+1</trust_score>" + st + end, FaultBadValue},
		{"leading zero", r + "<trust_score>01</trust_score>" + st + end, FaultBadValue},
		{"minus zero", r + "<trust_score>-0</trust_score>" + st + end, FaultBadValue},
		{"fraction", r + "<trust_score>1.0</trust_score>" + st + end, FaultBadValue},
		{"full-width digit", r + "<trust_score>１</trust_score>" + st + end, FaultBadValue},
		{"words", r + "<trust_score>2 (high)</trust_score>" + st + end, FaultBadValue},
		{"empty number", r + "<trust_score></trust_score>" + st + end, FaultBadValue},
		{"huge number", r + "<trust_score>99999999999999999999</trust_score>" + st + end, FaultBadValue},
		{"NUL does not vanish", "<respo\x00nse>Hello!</response>" + tr + st + end, FaultUnknownTag},
	} {
		values, fault := p.Parse(c.text)
		if fault != c.fault {
			t.Errorf("%s: fault %q, want %q", c.name, fault, c.fault)
		}
		if c.fault == "" && !maps.Equal(values, good) {
			t.Errorf("%s: values %v", c.name, values)
		}
		if c.fault != "" && values != nil {
			t.Errorf("%s: a faulty message has values %v", c.name, values)
		}
	}
}

func TestParseEnumsAndPrivateText(t *testing.T) {
	p := &fixture().User.Protocol
	const head, tail = "<think></think><reply>好，", "</reply><patience>p0</patience><trust>t2</trust><end>agree</end>"
	values, fault := p.Parse(head + "\xe5\xa5" + tail) // a character cut by a token limit
	want := map[string]string{"think": "", "reply": "好，�", "patience": "p0", "trust": "t2", "end": "agree"}
	if fault != "" || !maps.Equal(values, want) {
		t.Fatalf("%v, %q", values, fault)
	}
	for _, bad := range []string{"p2", "P0", "0", ""} {
		if _, fault := p.Parse(strings.Replace(head+tail, "p0", bad, 1)); fault != FaultBadValue {
			t.Errorf("patience %q: %q", bad, fault)
		}
	}
}

func TestReadMessageCountsTruncation(t *testing.T) {
	s := fixture()
	if m := s.ReadMessage(Agent, "<response>Hel", true); m.Fault != FaultTruncated || m.Values != nil {
		t.Errorf("cut: %+v", m)
	}
	whole := s.Agent.Protocol.Render(map[string]string{"response": "Hi", "trust_score": "0", "stage": "0", "status": "0"})
	if m := s.ReadMessage(Agent, whole, true); m.Fault != "" {
		t.Errorf("whole though at the limit: %s", m.Fault)
	}
}

func TestMeanings(t *testing.T) {
	s := fixture()
	agent := map[string]string{"response": "Hi", "trust_score": "2", "stage": "1", "status": "-1"}
	user := map[string]string{"think": "x", "reply": "Yes", "patience": "p1", "trust": "t0", "end": "hang_up"}
	if got := s.Agent.Protocol.Reply(agent); got != "Hi" {
		t.Errorf("reply %q", got)
	}
	for _, c := range []struct {
		p      *Protocol
		values map[string]string
		means  string
		want   int
		ok     bool
	}{
		{&s.Agent.Protocol, agent, MeansStatus, -1, true},
		{&s.Agent.Protocol, agent, "state:trust", 2, true},
		{&s.Agent.Protocol, agent, "state:patience", 0, false}, // no such field
		{&s.Agent.Protocol, agent, MeansReply, 0, false},       // no number
		{&s.Agent.Protocol, nil, MeansStatus, 0, false},
		{&s.User.Protocol, user, MeansStatus, -1, true}, // first of three words
		{&s.User.Protocol, user, "state:patience", 1, true},
		{&s.User.Protocol, map[string]string{"end": "agree"}, MeansStatus, 1, true},
		{&s.User.Protocol, map[string]string{"trust": "t9"}, "state:trust", -1, false},
		{&s.Agent.Protocol, map[string]string{"trust_score": "7"}, "state:trust", 7, false}, // published files hold such
	} {
		if n, ok := c.p.Number(c.values, c.means); ok != c.ok || ok && n != c.want {
			t.Errorf("Number(%v, %s) = %d, %t", c.values, c.means, n, ok)
		}
	}
	if st, ok := s.User.Protocol.StateOf(user, s.Dimensions); !ok || !st.Equal(State{1, 0}) {
		t.Errorf("user's state %v %t", st, ok)
	}
	if _, ok := s.Agent.Protocol.StateOf(agent, s.Dimensions); ok {
		t.Error("the agent has no field for patience, so no whole state")
	}
}

func TestRenderAndSegments(t *testing.T) {
	p := &fixture().Agent.Protocol
	values := map[string]string{"response": "Hi", "trust_score": "2", "stage": "1", "status": "0"}
	text := p.Render(values)
	const want = "<response>Hi</response>\n<trust_score>2</trust_score>\n<stage>1</stage>\n<status>0</status>"
	if text != want {
		t.Fatalf("Render: %q", text)
	}
	var b strings.Builder
	for i, seg := range p.Segments() {
		if (seg.Field != nil) != (i%2 == 1) {
			t.Fatalf("segment %d: %+v: literals and fields must alternate", i, seg)
		}
		if seg.Field == nil {
			b.WriteString(seg.Literal)
			continue
		}
		b.WriteString(values[seg.Field.Tag])
		if next := p.Segments()[i+1].Literal; !strings.HasPrefix(next, seg.Field.Close()) {
			t.Errorf("after %s comes %q", seg.Field.Tag, next)
		}
	}
	if b.String() != want {
		t.Errorf("segments give %q", b.String())
	}
	if got, _ := p.Parse(text); !maps.Equal(got, values) {
		t.Errorf("parsed back: %v", got)
	}
	if got := p.Fields[3].Words(); !reflect.DeepEqual(got, []string{"-1", "0", "1"}) {
		t.Errorf("status words %v", got)
	}
	if got := p.Fields[0].Words(); got != nil {
		t.Errorf("a text has words %v", got)
	}
}

func TestExtract(t *testing.T) {
	for _, c := range []struct {
		text string
		want map[string]string
	}{
		{"", nil},
		{"plain < text > only", nil},
		{"<status>1</status> note <response> Hi \n</response>", map[string]string{"status": "1", "response": "Hi"}},
		{"<a>1</a><a>2</a>", map[string]string{"a": "1"}},                                        // the first counts
		{"<response>a < b <i>c</i></response>", map[string]string{"response": "a < b <i>c</i>"}}, // inner markup stays
		{"<open>never closed <a>1</a>", map[string]string{"a": "1"}},
		{"<a b>1</a b><1>2</1></x></x>", nil}, // no tag names
	} {
		if got := Extract(c.text); !maps.Equal(got, c.want) {
			t.Errorf("Extract(%q) = %v", c.text, got)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain 文字": "plain 文字", "a\x00b": "a�b", "a\xff\xfeb": "a�b", "\xe5\xa5": "�", "": "",
	} {
		if got := Clean(in); got != want || Clean(got) != want {
			t.Errorf("Clean(%q) = %q, again %q; want %q", in, got, Clean(got), want)
		}
	}
}
