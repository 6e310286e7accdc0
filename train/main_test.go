package train

import (
	"os"
	"testing"

	"seadtrain/torch"
)

// One thread: the models are tiny, and a team's barriers would cost more than the work beside other tests.
func TestMain(m *testing.M) {
	torch.SetNumThreads(1)
	os.Exit(m.Run())
}
