// Package precision chooses the element types that a model is held, computed and generated in.
package precision

import (
	"fmt"
	"slices"
	"strings"

	"seadtrain/internal/doctor"
	"seadtrain/torch"
)

// Names are the values of a dtype setting.
var Names = []string{"auto", "fp32", "bf16"}

// Generation are the values of a setting of weights to generate with: those of the frozen role-play model, and those of
// the agent, whose log-probs are trained on.
var (
	Generation      = []string{"auto", "fp32", "bf16", "int8"}
	AgentGeneration = Generation[:3]
)

// Check refuses other values.
func Check(name string) error { return CheckIn(Names, name) }

// CheckIn refuses a value that is not among these names.
func CheckIn(names []string, name string) error {
	if slices.Contains(names, name) {
		return nil
	}
	last := len(names) - 1
	return fmt.Errorf("%q: want %s or %s", name, strings.Join(names[:last], ", "), names[last])
}

// Choose gives the type for a name and, in words, why. "auto" asks the processor: with AMX or AVX-512 bf16 the matrix
// products are several times faster in bf16, without them several times slower.
func Choose(name string) (torch.DType, string, error) { return choose(name, doctor.ThisCPU()) }

func choose(name string, cpu *doctor.CPU) (torch.DType, string, error) {
	switch name {
	case "fp32":
		return torch.F32, "asked for", nil
	case "bf16":
		reason := "asked for"
		if !cpu.AMXBF16 && !cpu.AVX512BF16 {
			reason = "asked for, though this processor has no bf16 instructions and fp32 would be faster"
		}
		return torch.BF16, reason, nil
	case "auto":
		if cpu.AMXBF16 || cpu.AVX512BF16 {
			return torch.BF16, "auto: this processor has bf16 matrix instructions", nil
		}
		return torch.F32, "auto: this processor has no bf16 instructions", nil
	}
	return 0, "", fmt.Errorf("dtype %w", Check(name))
}

// ForGeneration gives the type of the weights that a model held in some type generates with on the CPU, with activations in
// fp32 (model.Twin), and why.
func ForGeneration(name string, held torch.DType) (torch.DType, string, error) {
	return forGeneration(name, held, doctor.ThisCPU())
}

func forGeneration(name string, held torch.DType, cpu *doctor.CPU) (torch.DType, string, error) {
	switch {
	case name == "fp32":
		return torch.F32, "asked for", nil
	case name == "bf16":
		return torch.BF16, "asked for", nil
	case name == "int8":
		return torch.I8, "asked for", nil
	case name != "auto":
		return 0, "", fmt.Errorf("precision %w", CheckIn(Generation, name))
	case held == torch.BF16:
		return torch.BF16, "auto: the model is held in bf16", nil
	}
	return choose(name, cpu)
}
