package bench

import (
	"os"
	"testing"

	"seadtrain/torch"
)

func TestMain(m *testing.M) {
	torch.SetNumThreads(1)
	os.Exit(torch.CheckLeaks(m.Run))
}
