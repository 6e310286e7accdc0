package nano

// Ear reads text of one language: acts out of what an agent says, and out of a user's reply everything that it shows.
type Ear struct {
	acts    reader
	replies reader
	clues   []clue // what each class of sentence in a reply means
}

// clue is the meaning of one sentence of a reply.
type clue struct {
	kind  clueKind
	value int
}

type clueKind int

const (
	clueOutcome clueKind = iota
	clueStep
	clueWorry
	clueTone
	clueHintC
	clueHintT
)

// NewEar builds the ear for the phrases of a language.
func NewEar(p *Phrases) *Ear {
	e := &Ear{acts: newReader(p.Acts[Greet:])}
	var classes [][]string
	add := func(kind clueKind, value int, templates []string) {
		if len(templates) > 0 {
			classes = append(classes, templates)
			e.clues = append(e.clues, clue{kind, value})
		}
	}
	for o := range p.Outcomes {
		add(clueOutcome, o, p.Outcomes[o])
	}
	for k := range p.Steps {
		add(clueStep, k, p.Steps[k])
	}
	for w := range p.Worries {
		add(clueWorry, w, p.Worries[w])
	}
	for level := range p.Tones {
		add(clueTone, level, p.Tones[level])
	}
	for band := range p.HintC {
		add(clueHintC, band, p.HintC[band])
		add(clueHintT, band, p.HintT[band])
	}
	e.replies = newReader(classes)
	return e
}

// Act is what an agent's words do.
func (e *Ear) Act(says string) Act { return Greet + Act(e.acts.class(says)) } // class -1 is Nonsense, just below Greet

// Heard is what a reply shows. Fields it does not show are -1; a reply without a tone shows a calm user.
type Heard struct {
	Outcome      Outcome
	Worry        Worry
	Emotion      int
	HintC, HintT int // bands, see Phrases
}

// Reply reads a user's reply, sentence by sentence. What it does not understand it passes over.
func (e *Ear) Reply(text string) Heard {
	h := Heard{Outcome: -1, Worry: NoWorry, Emotion: 2, HintC: -1, HintT: -1}
	for _, s := range sentences(text) {
		class := e.replies.class(s)
		if class < 0 {
			continue
		}
		switch c := e.clues[class]; c.kind {
		case clueOutcome:
			h.Outcome = Outcome(c.value)
		case clueStep:
			h.Outcome = Done
		case clueWorry:
			h.Worry = Worry(c.value)
		case clueTone:
			h.Emotion = c.value
		case clueHintC:
			h.HintC = c.value
		case clueHintT:
			h.HintT = c.value
		}
	}
	return h
}
