package rollout

// guidedTurn leads one turn through a protocol. What it forces and what it lets the model choose is in design terms:
// tags are forced; values, the end of every text and the end of the turn are sampled.
type guidedTurn struct {
	g      *guide
	budget int     // tokens that the turn may still have
	forced []int32 // to append before the next sampled token
	part   int     // present field; len(parts): the end of the turn
	n      int     // tokens of the present text
	at     *node   // present place in a trie
	set    int32   // what the next token is drawn from
	short  bool    // a text was closed by force
	done   bool
}

func newGuidedTurn(g *guide, maxTokens int) *guidedTurn {
	t := &guidedTurn{g: g, budget: maxTokens, part: -1}
	t.enter(g.parts[0].literal)
	return t
}

func (t *guidedTurn) Next() Next {
	n := Next{Forced: t.forced, Set: t.set, Done: t.done}
	t.budget -= len(t.forced)
	t.forced = nil
	return n
}

func (t *guidedTurn) Accept(id int32) {
	t.budget--
	switch p := t.value(); {
	case p == nil:
		t.ended(id)
	case p.trie != nil:
		t.step(id)
	case id == t.g.after(t.part)[0]:
		t.enter(t.g.after(t.part)[1:])
	default:
		t.n++
		t.text()
	}
}

// value is the present field; nil at the end of the turn.
func (t *guidedTurn) value() *part {
	if t.part == len(t.g.parts) {
		return nil
	}
	return &t.g.parts[t.part]
}

// force appends tokens without sampling.
func (t *guidedTurn) force(ids ...int32) {
	t.forced = append(t.forced[:len(t.forced):len(t.forced)], ids...)
}

// enter appends the literal in front of the next field, or what is left of it, and begins that field.
func (t *guidedTurn) enter(literal []int32) {
	t.force(literal...)
	t.part++
	switch p := t.value(); {
	case p == nil && t.g.ends < 0:
		t.ended(t.g.end)
		t.force(t.g.end)
	case p == nil:
		t.set = t.g.ends
	case p.trie != nil:
		t.at = p.trie
		t.choose()
	default:
		t.n = 0
		t.text()
	}
}

// text says what may follow in a text: it is closed by force when its tokens are used up.
func (t *guidedTurn) text() {
	p := t.value()
	room := t.budget - len(t.forced) - p.rest
	if p.atMost > 0 {
		room = min(room, p.atMost-t.n)
	}
	switch {
	case t.n == 0 && p.atLeast > 0:
		t.set = p.first
	case room > 0:
		t.set = p.text
	default:
		t.short = true
		t.enter(t.g.after(t.part))
	}
}

// step goes down a trie; the first token of the literal behind it ends a word that others begin with.
func (t *guidedTurn) step(id int32) {
	for _, e := range t.at.next {
		if e.id == id {
			t.at = e.to
			t.choose()
			return
		}
	}
	t.enter(t.g.after(t.part)[1:])
}

// choose goes on where there is only one way and stops where there is a choice.
func (t *guidedTurn) choose() {
	for !t.at.word && len(t.at.next) == 1 {
		t.force(t.at.next[0].id)
		t.at = t.at.next[0].to
	}
	if len(t.at.next) == 0 {
		t.enter(t.g.after(t.part))
		return
	}
	t.set = t.at.set
}

// ended takes the token after the last tag: the end of turn, or white space before it.
func (t *guidedTurn) ended(id int32) {
	t.done = true
	if id != t.g.end {
		t.force(t.g.end)
	}
}

func (t *guidedTurn) cut() bool    { return false }
func (t *guidedTurn) closed() bool { return t.short }
