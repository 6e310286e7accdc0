package torch

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The kernels' tests run again, in a process of its own, under every instruction set that this processor has.
func TestInstructionSets(t *testing.T) {
	if os.Getenv("SEAD_ISA") != "" {
		t.Skip("this is the process that SEAD_ISA was set for")
	}
	for _, isa := range []string{"generic", "avx2", "avx512"} {
		t.Run(isa, func(t *testing.T) {
			if isa == ISA() {
				t.Skip("this process uses it")
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestKernel|^TestWhichISA$", "-test.v")
			cmd.Env = append(os.Environ(), "SEAD_ISA="+isa)
			out, err := cmd.CombinedOutput()
			if !strings.Contains(string(out), "instruction set: "+isa+"\n") {
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				t.Skip("this processor does not have it")
			}
			if n := strings.Count(string(out), "--- PASS: TestKernel"); err != nil || n < 10 {
				t.Errorf("%d tests passed, %v\n%s", n, err, out)
			}
		})
	}
}

func TestWhichISA(t *testing.T) {
	t.Logf("instruction set: %s", ISA())
	if want := os.Getenv("SEAD_ISA"); want == "generic" && ISA() != want {
		t.Errorf("%s is in use, %s was asked for", ISA(), want)
	}
}
