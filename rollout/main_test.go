package rollout

import (
	"testing"

	"seadtrain/internal/ranktest"
	"seadtrain/torch"
)

// One thread: the models of these tests are too small to share, and a busy machine would spin at every barrier.
func TestMain(m *testing.M) {
	torch.SetNumThreads(1)
	ranktest.Main(m, map[string]func(*ranktest.Rank) error{"rollout": playRanks, "stop": stopRanks})
}
