package rollout

import (
	"encoding/json"
	"maps"
	"math"
	"math/bits"
	"slices"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/model"
	"seadtrain/model/chat"
	"seadtrain/model/tokenizer"
	"seadtrain/torch"
)

// desk is a small scene whose words are all distinct, so that a Markov chain over tokens can speak its protocol.
func desk() *dialogue.Scenario {
	state := dialogue.MeansState + "mood"
	return &dialogue.Scenario{
		Name: "desk", Language: "en", MaxTurns: 6,
		Dimensions: []dialogue.Dimension{{Name: "mood", Levels: 3, Labels: []string{"bad", "fair", "fine"}}},
		Stages:     []dialogue.Stage{{ID: 0, Name: "talk", Goal: "Talk."}},
		Behaviours: []dialogue.Behaviour{{ID: "a.loud", Category: "a", Text: "You are loud."}, {ID: "b.calm", Category: "b", Text: "You are calm."}},
		Agent: dialogue.Side{Prompt: "You sit at a desk and help.", Protocol: dialogue.Protocol{Separator: "\n", Fields: []dialogue.Field{
			{Tag: "say", Kind: dialogue.Text, Means: dialogue.MeansReply, MaxTokens: 12},
			{Tag: "guess", Kind: dialogue.Enum, Values: []string{"G0", "G1", "G2"}, Means: state},
			{Tag: "status", Kind: dialogue.Enum, Values: []string{"S-quit", "S-go", "S-won"}, Means: dialogue.MeansStatus},
		}}},
		User: dialogue.Side{
			Prompt: "You are a guest at a desk.\n{profile}", ProfileText: "Mood {mood}, {mood.label}. {behaviours}",
			Protocol: dialogue.Protocol{Separator: "\n", Fields: []dialogue.Field{
				{Tag: "think", Kind: dialogue.Text, Means: dialogue.MeansPrivate, MaxTokens: 8},
				{Tag: "reply", Kind: dialogue.Text, Means: dialogue.MeansReply},
				{Tag: "mood", Kind: dialogue.Enum, Values: []string{"M0", "M1", "M2"}, Means: state},
				{Tag: "end", Kind: dialogue.Enum, Values: []string{"E-no", "E-on", "E-yes"}, Means: dialogue.MeansStatus},
			}},
		},
	}
}

// deskWords are the scene's own tokens beside the bytes.
var deskWords = []string{
	"<say>", "</say>", "<guess>", "</guess>", "<status>", "</status>", "<think>", "</think>", "<reply>", "</reply>",
	"<mood>", "</mood>", "<end>", "</end>", "G0", "G1", "G2", "S-quit", "S-go", "S-won", "M0", "M1", "M2", "E-no", "E-on",
	"E-yes", " alpha", " beta", " gamma", " uno", " dos", " tres", " secret", " hidden",
}

// testVocab is the models' vocabulary: some ids more than the tokenizer uses, as in real checkpoints.
const testVocab = 320

// byteTokenizer is byte-level without merges: 256 bytes, the words given, and ChatML's special tokens.
func byteTokenizer(t testing.TB, words ...string) (*tokenizer.Tokenizer, *chat.Template) {
	t.Helper()
	vocab := map[string]int{}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) { // bytes that do not print
			r = next
			next++
		}
		vocab[string(r)] = b
	}
	type added struct {
		ID         int    `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	}
	var extra []added
	for _, w := range words {
		extra = append(extra, added{ID: 256 + len(extra), Content: w})
	}
	for _, w := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "[PAD]"} {
		extra = append(extra, added{ID: 256 + len(extra), Content: w, Special: true})
	}
	data, err := json.Marshal(map[string]any{
		"version": "1.0", "added_tokens": extra,
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
		"decoder":       map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tok.Close)
	end, _ := tok.ID("<|endoftext|>")
	tok.EOS = []int32{end}
	tmpl, err := chat.New("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"+
		"{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}", tok)
	if err != nil {
		t.Fatal(err)
	}
	return tok, tmpl
}

func testConfig(hidden, positions int) *model.Config {
	return &model.Config{
		ModelType: model.Qwen2, VocabSize: testVocab, HiddenSize: hidden, IntermediateSize: 64, NumHiddenLayers: 2,
		NumAttentionHeads: 4, NumKeyValueHeads: 2, HeadDim: 16, HiddenAct: "silu", MaxPositionEmbeddings: positions,
		RMSNormEps: 1e-6, InitializerRange: .02, Rope: model.Rope{Type: model.RopeDefault, Theta: 10000}, BOSTokenID: -1, PadTokenID: -1,
	}
}

func initModel(t testing.TB, c *model.Config, seed uint64) *model.Model {
	t.Helper()
	m, err := model.Init(c, model.Options{DType: torch.F32}, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = torch.Do(m.Close) })
	return m
}

// randomModel knows nothing; its logits spread about as far as a trained model's.
func randomModel(t testing.TB, seed uint64) *model.Model {
	t.Helper()
	c := testConfig(48, 2048)
	c.InitializerRange = .2
	return initModel(t, c, seed)
}

// chain is a Markov chain over tokens: what follows a token, with which share.
type chain map[string]map[string]float64

var agentChain = chain{
	"\n":    {"<say>": 1},
	"<say>": {" alpha": .4, " beta": .3, " gamma": .3}, " alpha": {" beta": .6, "</say>": .4}, " beta": {" gamma": .5, "</say>": .5},
	" gamma": {" alpha": .4, "</say>": .6}, "</say>": {"<guess>": 1}, "<guess>": {"G0": .2, "G1": .3, "G2": .5},
	"G0": {"</guess>": 1}, "G1": {"</guess>": 1}, "G2": {"</guess>": 1}, "</guess>": {"<status>": 1},
	"<status>": {"S-quit": .03, "S-go": .92, "S-won": .05}, "S-quit": {"</status>": 1}, "S-go": {"</status>": 1}, "S-won": {"</status>": 1},
	"</status>": {"<|im_end|>": 1},
}

var userChain = chain{
	"\n": {"<think>": 1}, "<think>": {" secret": .5, " hidden": .5}, " secret": {" hidden": .5, "</think>": .5}, " hidden": {"</think>": 1},
	"</think>": {"<reply>": 1}, "<reply>": {" uno": .5, " dos": .5}, " uno": {" dos": .3, "</reply>": .7}, " dos": {" tres": .5, "</reply>": .5},
	" tres": {"</reply>": 1}, "</reply>": {"<mood>": 1}, "<mood>": {"M0": .3, "M1": .4, "M2": .3},
	"M0": {"</mood>": 1}, "M1": {"</mood>": 1}, "M2": {"</mood>": 1}, "</mood>": {"<end>": 1},
	"<end>": {"E-no": .1, "E-on": .75, "E-yes": .15}, "E-no": {"</end>": 1}, "E-on": {"</end>": 1}, "E-yes": {"</end>": 1},
	"</end>": {"<|im_end|>": 1},
}

// markovModel speaks a chain: embeddings are rows of a Hadamard matrix, so orthogonal, and the head holds the chain's
// log-probs over a background of e^-margin. The layers stay random, and small enough to disturb without drowning it.
func markovModel(t testing.TB, tok *tokenizer.Tokenizer, c chain, margin float64, seed uint64) *model.Model {
	t.Helper()
	return markovOf(t, tok, c, margin, seed, testConfig(128, 2048))
}

func markovOf(t testing.TB, tok *tokenizer.Tokenizer, c chain, margin float64, seed uint64, config *model.Config) *model.Model {
	t.Helper()
	config.InitializerRange = .006
	m := initModel(t, config, seed)
	width := config.HiddenSize // a power of two
	row := map[int32]int{}
	id := func(s string) int32 {
		ids, err := tok.EncodeRaw(s)
		if err != nil || len(ids) != 1 {
			t.Fatalf("%q is not one token", s)
		}
		if _, ok := row[ids[0]]; !ok {
			row[ids[0]] = len(row)
		}
		return ids[0]
	}
	sign := func(row, col int) float32 { return 1 - 2*float32(bits.OnesCount(uint(row&col))&1) }
	embed, head := make([]float32, config.VocabSize*width), make([]float32, config.VocabSize*width)
	for _, from := range slices.Sorted(maps.Keys(c)) {
		a := int(id(from))
		for to, p := range c[from] { // RMSNorm leaves a row of ±1 as it is: its product with itself is width
			b := int(id(to))
			for k := range width {
				head[b*width+k] += float32(margin+math.Log(p)) / float32(width) * sign(row[int32(a)], k)
			}
		}
	}
	if len(row) > width {
		t.Fatalf("a chain of %d tokens does not fit %d dimensions", len(row), width)
	}
	for id, r := range row {
		for k := range width {
			embed[int(id)*width+k] = sign(r, k)
		}
	}
	if err := torch.Do(func() {
		m.EmbedLeaf().Tensor.CopyInPlace(torch.Of(embed, int64(config.VocabSize), int64(width)))
		m.HeadLeaf().Tensor.CopyInPlace(torch.Of(head, int64(config.VocabSize), int64(width)))
	}); err != nil {
		t.Fatal(err)
	}
	return m
}

// deskProfiles are n different users.
func deskProfiles(s *dialogue.Scenario, n int) (ps []dialogue.Profile) {
	for i := range n {
		ps = append(ps, s.NewProfile(dialogue.State{i % 3}, []string{s.Behaviours[i/3%2].ID}))
	}
	return ps
}

// table is one scene ready to be played.
type table struct {
	cfg    Config
	parts  Parts
	tok    *tokenizer.Tokenizer
	roller *Roller
}

func deskConfig(mode dialogue.Mode) Config {
	return Config{
		Agent: Role{Sampling: Sampling{Temperature: 1, TopP: 1}, MaxTokens: 60, Context: 1200},
		User:  Role{Sampling: Sampling{Temperature: .9, TopP: .95, TopK: 40}, MaxTokens: 60, Context: 1200},
		Mode:  mode, MaxDialogues: 16, MaxRows: 256, MaxExcluded: 1, Precision: "fp32", UserPrecision: "fp32",
	}
}

// setTable plays the desk with two Markov models, whose protocol is right by itself.
func setDesk(t testing.TB, cfg Config) *table {
	t.Helper()
	tok, tmpl := byteTokenizer(t, deskWords...)
	return seatDesk(t, cfg, Parts{
		Scenario: desk(), Tokenizer: tok, Template: tmpl,
		Agent: markovModel(t, tok, agentChain, 13, 1), Frozen: markovModel(t, tok, userChain, 13, 2),
	})
}

func seatDesk(t testing.TB, cfg Config, p Parts) *table {
	t.Helper()
	live := torch.Live()
	r, err := New(cfg, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.checkIdle(t)
		r.Close()
		if n := torch.Live(); n != live {
			t.Errorf("%d tensor handles are left, %d before", n, live)
		}
	})
	return &table{cfg: cfg, parts: p, tok: p.Tokenizer, roller: r}
}

// checkIdle: between runs only prefixes hold blocks.
func (r *Roller) checkIdle(t testing.TB) {
	t.Helper()
	for _, s := range r.sides {
		if s.weights == nil {
			continue
		}
		s.weights.SetVersion(0)
		if c := s.weights.cache; c.Free() != c.Blocks() || s.weights.reserved != 0 || len(s.weights.active) != 0 {
			t.Errorf("weights %s: %d of %d blocks are free, %d promised, %d sequences active", s.weights.Name, c.Free(), c.Blocks(),
				s.weights.reserved, len(s.weights.active))
		}
	}
}
