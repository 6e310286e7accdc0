package train

import (
	"testing"

	"seadtrain/internal/ranktest"
	"seadtrain/torch"
)

// One thread: the models are tiny, and a team's barriers would cost more than the work beside other tests.
func TestMain(m *testing.M) {
	torch.SetNumThreads(1)
	ranktest.Main(m, map[string]func(*ranktest.Rank) error{"step": rankStep, "fail": rankFail})
}
