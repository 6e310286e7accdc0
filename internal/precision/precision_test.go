package precision

import (
	"strings"
	"testing"

	"seadtrain/internal/doctor"
	"seadtrain/torch"
)

func TestChoose(t *testing.T) {
	plain, amx, avx := &doctor.CPU{AVX2: true}, &doctor.CPU{AMXBF16: true}, &doctor.CPU{AVX512BF16: true}
	for _, c := range []struct {
		name   string
		cpu    *doctor.CPU
		want   torch.DType
		reason string
	}{
		{"auto", plain, torch.F32, "no bf16"},
		{"auto", amx, torch.BF16, "matrix instructions"},
		{"auto", avx, torch.BF16, "matrix instructions"},
		{"fp32", amx, torch.F32, "asked for"},
		{"bf16", plain, torch.BF16, "fp32 would be faster"},
		{"bf16", amx, torch.BF16, "asked for"},
	} {
		got, reason, err := choose(c.name, c.cpu)
		if err != nil || got != c.want || !strings.Contains(reason, c.reason) {
			t.Errorf("%s on %+v: %v, %q, %v; want %v because of %q", c.name, *c.cpu, got, reason, err, c.want, c.reason)
		}
	}
	if _, _, err := choose("fp16", plain); err == nil || !strings.Contains(err.Error(), "want auto, fp32 or bf16") {
		t.Errorf("fp16: %v", err)
	}
}

func TestForGeneration(t *testing.T) {
	plain, amx, avx := &doctor.CPU{AVX2: true}, &doctor.CPU{AMXBF16: true}, &doctor.CPU{AVX512BF16: true}
	for _, c := range []struct {
		name   string
		held   torch.DType
		cpu    *doctor.CPU
		want   torch.DType
		reason string
	}{
		{"auto", torch.F32, plain, torch.F32, "no bf16"},
		{"auto", torch.F32, amx, torch.BF16, "matrix instructions"},
		{"auto", torch.F32, avx, torch.BF16, "matrix instructions"},
		{"auto", torch.BF16, plain, torch.BF16, "held in bf16"},
		{"fp32", torch.BF16, amx, torch.F32, "asked for"},
		{"bf16", torch.F32, plain, torch.BF16, "asked for"},
		{"int8", torch.F32, plain, torch.I8, "asked for"},
	} {
		got, reason, err := forGeneration(c.name, c.held, c.cpu)
		if err != nil || got != c.want || !strings.Contains(reason, c.reason) {
			t.Errorf("%s of %v on %+v: %v, %q, %v; want %v because of %q", c.name, c.held, *c.cpu, got, reason, err, c.want, c.reason)
		}
	}
	if _, _, err := forGeneration("fp8", torch.F32, plain); err == nil || err.Error() != `precision "fp8": want auto, fp32, bf16 or int8` {
		t.Errorf("fp8: %v", err)
	}
	if err := CheckIn(AgentGeneration, "int8"); err == nil || err.Error() != `"int8": want auto, fp32 or bf16` {
		t.Errorf("int8 for the agent: %v", err)
	}
}
