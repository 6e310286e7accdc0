package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"seadtrain/dialogue"
	"seadtrain/model/tokenizer"
	"seadtrain/torch"
)

// guide is a protocol compiled for one tokenizer: literals as tokens, numbers and enums as tries over token sequences,
// and the allowed set of every place.
type guide struct {
	parts []part
	tail  []int32 // the literal after the last value: its closing tag
	end   int32   // end of turn
	// After the tail the model ends its turn, or writes one white-space token first: the end is sampled among these.
	// -1: there is no white-space token, and the end is forced.
	ends int32
}

// part is one field: the literal in front of its value, and the value.
type part struct {
	literal []int32
	trie    *node // numbers and enums
	// Texts: tokens free of '<', and the one that opens the closing tag.
	text, first int32 // allowed sets; first is for the first token: a reply may not be blank
	atLeast     int   // tokens
	atMost      int   // tokens, 0: no limit of its own
	rest        int   // worst case in tokens of all that follows a value
}

// node is a place in a trie over the token sequences of a field's words.
type node struct {
	next []edge
	word bool  // a word ends here
	set  int32 // allowed: the edges' tokens and, if a word ends here, the first token of the literal that follows
	deep int   // longest way down, in tokens
}

type edge struct {
	id int32
	to *node
}

// newGuide compiles a protocol; its allowed sets go into the table. A turn of maxTokens must hold the longest skeleton.
func newGuide(p *dialogue.Protocol, tok *tokenizer.Tokenizer, end int32, sets *setTable, maxTokens int) (*guide, error) {
	g := &guide{end: end}
	segs := p.Segments()
	for i := 0; i+1 < len(segs); i += 2 {
		literal, err := encodeLiteral(tok, segs[i].Literal)
		if err != nil {
			return nil, err
		}
		g.parts = append(g.parts, part{literal: literal})
	}
	var err error
	if g.tail, err = encodeLiteral(tok, segs[len(segs)-1].Literal); err != nil {
		return nil, err
	}
	for i := range g.parts {
		f := segs[2*i+1].Field
		if err := g.compile(i, f, tok, sets); err != nil {
			return nil, fmt.Errorf("field <%s>: %w", f.Tag, err)
		}
	}
	g.ends = -1
	if blank := tokensWhere(tok, func(b []byte) bool { return strings.Trim(string(b), blanks) == "" }); len(blank) > 0 {
		g.ends = sets.add(append(blank, end))
	}
	if need := g.shortest(); need > maxTokens {
		return nil, fmt.Errorf("a turn of %d tokens cannot hold the protocol's tags and values: at least %d are needed", maxTokens, need)
	}
	return g, nil
}

const blanks = " \t\r\n" // what the parser trims

func encodeLiteral(tok *tokenizer.Tokenizer, text string) ([]int32, error) {
	ids, err := tok.Encode(text)
	if err != nil {
		return nil, err
	}
	if got := tok.Decode(ids, false); got != text {
		return nil, fmt.Errorf("the tokenizer cannot write %q: it becomes %q", text, got)
	}
	return ids, nil
}

// tokensWhere lists the ordinary tokens whose bytes pass a test: in use, not special, and without '<'.
func tokensWhere(tok *tokenizer.Tokenizer, ok func(b []byte) bool) (ids []int32) {
	for id := range int32(tok.VocabSize()) {
		b := tok.Bytes(id)
		if len(b) > 0 && !tok.Special(id) && !slices.Contains(b, '<') && !slices.Contains(b, 0) && ok(b) {
			ids = append(ids, id)
		}
	}
	return ids
}

// compile fills in part i.
func (g *guide) compile(i int, f *dialogue.Field, tok *tokenizer.Tokenizer, sets *setTable) error {
	p := &g.parts[i]
	closer := g.after(i)[0]
	if f.Kind != dialogue.Text {
		p.trie = &node{}
		for _, w := range f.Words() {
			ids, err := encodeLiteral(tok, w)
			if err != nil {
				return err
			}
			p.trie.add(ids)
		}
		p.trie.finish(closer, sets)
		return nil
	}
	any := tokensWhere(tok, func([]byte) bool { return true })
	if len(any) == 0 {
		return errors.New("the vocabulary has no token that a text could be made of")
	}
	p.atMost = f.MaxTokens
	p.text = sets.add(append(any, closer))
	p.first = p.text
	if f.Means == dialogue.MeansReply {
		p.atLeast = 1
		p.first = sets.add(tokensWhere(tok, func(b []byte) bool { return strings.Trim(string(b), blanks) != "" }))
	}
	return nil
}

// after is the literal that follows the value of part i.
func (g *guide) after(i int) []int32 {
	if i+1 < len(g.parts) {
		return g.parts[i+1].literal
	}
	return g.tail
}

// shortest works out from the end how many tokens must be kept for what follows each value, and gives the length of
// the shortest turn that surely fits: texts as short as can be, words as long as can be, and the end of turn.
func (g *guide) shortest() int {
	rest := 2 // white space and the end of turn
	for i := len(g.parts) - 1; i >= 0; i-- {
		p := &g.parts[i]
		rest += len(g.after(i))
		p.rest = rest
		if p.trie != nil {
			rest += p.trie.deep
		} else {
			rest += p.atLeast
		}
	}
	return rest + len(g.parts[0].literal)
}

func (n *node) add(ids []int32) {
	if len(ids) == 0 {
		n.word = true
		return
	}
	i := slices.IndexFunc(n.next, func(e edge) bool { return e.id == ids[0] })
	if i < 0 {
		i = len(n.next)
		n.next = append(n.next, edge{ids[0], &node{}})
	}
	n.next[i].to.add(ids[1:])
}

func (n *node) finish(closer int32, sets *setTable) {
	var ids []int32
	for _, e := range n.next {
		e.to.finish(closer, sets)
		n.deep = max(n.deep, 1+e.to.deep)
		ids = append(ids, e.id)
	}
	if n.word {
		ids = append(ids, closer)
	}
	if len(ids) > 1 { // a single way is taken without sampling
		n.set = sets.add(ids)
	}
}

// setTable keeps equal sets under one id.
type setTable struct {
	sets *torch.Sets
	ids  map[[sha256.Size]byte]int32 // by content
}

func newSetTable(vocab int) *setTable {
	return &setTable{sets: torch.NewSets(vocab), ids: map[[sha256.Size]byte]int32{}}
}

func (t *setTable) add(ids []int32) int32 {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	var content []byte
	for _, id := range ids {
		content = binary.LittleEndian.AppendUint32(content, uint32(id))
	}
	key := sha256.Sum256(content)
	id, ok := t.ids[key]
	if !ok {
		id = t.sets.Add(ids)
		t.ids[key] = id
	}
	return id
}
