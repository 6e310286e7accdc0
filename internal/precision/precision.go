// Package precision chooses the element type that a model is held and computed in.
package precision

import (
	"fmt"

	"seadtrain/internal/doctor"
	"seadtrain/torch"
)

// Names are the values of a dtype setting.
var Names = []string{"auto", "fp32", "bf16"}

// Check refuses other values.
func Check(name string) error {
	for _, n := range Names {
		if n == name {
			return nil
		}
	}
	return fmt.Errorf("%q: want auto, fp32 or bf16", name)
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
