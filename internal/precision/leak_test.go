package precision

import (
	"os"
	"testing"

	"seadtrain/torch"
)

func TestMain(m *testing.M) { os.Exit(torch.CheckLeaks(m.Run)) }
