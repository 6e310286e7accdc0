package main

import (
	"encoding/json"
	"strings"
	"testing"

	"seadtrain/internal/bench"
	"seadtrain/internal/testmodel"
)

func TestBench(t *testing.T) {
	tiny := testmodel.Tiny(t, 1)
	out := must(t, "bench", "decode", "--model", tiny, "--precision", "fp32", "--threads", "1", "--budget", "2", "--json", "-")
	var report bench.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	var names []string
	for _, row := range report.Rows {
		names = append(names, row.Name)
		if row.Error != "" || !(row.Value > 0) || !(row.Ratio > 0) {
			t.Errorf("%+v", row)
		}
	}
	const want = "decode1_of_bandwidth decode16_of_bandwidth decode64_of_bandwidth decode64_attention"
	if got := strings.Join(names, " "); got != want || report.Machine == "" {
		t.Errorf("rows %s on %q, want %s", got, report.Machine, want)
	}

	for _, c := range []struct {
		args string
		want string
		code int
	}{
		{"bench", "0 arguments, want SUITE", 2},
		{"bench fast", `no suite "fast": want ops, decode`, 2},
		{"bench ops --against hf,vllm", `--against: "vllm": want some of llama.cpp, openvino, hf`, 2},
		{"bench ops --precision fp16", `--precision: "fp16"`, 2},
		{"bench ops --threads -1", "--threads -1", 2},
		{"bench ops --budget 0", "--budget 0: want 1 to 1440 minutes", 2},
		{"bench ops --dialogues 0", "--dialogues 0: want 1 to 4096", 2},
		{"bench ops --json /no/such/folder/x", "/no/such/folder/x", 1},
		{"bench ops --model /no/such/model", "/no/such/model: no such file", 1},
		{"bench ops", "(make smollm2 fetches it)", 1}, // in the folder of this test
	} {
		out, stderr, code := call(t, "", strings.Fields(c.args)...)
		if code != c.code || out != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q; want %d and %q", c.args, code, out, stderr, c.code, c.want)
		}
	}
}
