package rollout

import (
	"os"
	"testing"

	"seadtrain/torch"
)

// One thread: the models of these tests are too small to share, and a busy machine would spin at every barrier.
func TestMain(m *testing.M) {
	torch.SetNumThreads(1)
	os.Exit(m.Run())
}
