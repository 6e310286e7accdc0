package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seadtrain/internal/testmodel"
	"seadtrain/torch"
)

// environment makes the test binary the program; OMP_WAIT_POLICY saves it from starting twice.
var environment = append(os.Environ(), "SEADTRAIN_TEST_MAIN=1", "OMP_WAIT_POLICY=passive")

func TestMain(m *testing.M) {
	if os.Getenv("SEADTRAIN_TEST_MAIN") != "" {
		main()
	}
	os.Exit(torch.CheckLeaks(m.Run))
}

// program is a call of seadtrain in a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = environment
	return cmd
}

// call runs it to its end, within a minute or so.
func call(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = environment
	cmd.Stdin = strings.NewReader(stdin)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); e != nil && cmd.ProcessState == nil {
		t.Fatal(e)
	}
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// must is call for what has to succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err, code := call(t, "", args...)
	if code != 0 {
		t.Fatalf("seadtrain %s: exit %d\n%s", strings.Join(args, " "), code, err)
	}
	return out
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Whatever is wrong with flags, files or configs: one line, the right exit code, nothing on standard output.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	tiny := testmodel.Tiny(t, 1)
	good := write(t, dir, "good.toml", testmodel.RunConfig(tiny))
	bad := write(t, dir, "bad.toml", "modle = \"x\"\n"+testmodel.RunConfig(tiny))
	broken := write(t, dir, "broken.toml", "name = \n")
	text := write(t, dir, "text.jsonl", "{\"ground_truth_history\": 3}\n")
	empty := write(t, dir, "empty.jsonl", "")
	file := write(t, dir, "file", "")
	for _, c := range []struct {
		args string
		in   string
		code int
		want string // begins the message
	}{
		{"nonsense", "", 2, `no command "nonsense"`},
		{"run", "", 2, "run: 0 arguments, want CONFIG"},
		{"run a b", "", 2, "run: 2 arguments"},
		{"run --nonsense", "", 2, "flag provided but not defined: -nonsense"},
		{"run " + dir + "/none.toml", "", 2, "read config: open "},
		{"run " + bad, "", 2, bad + `:1: modle: unknown key: did you mean "model"?`},
		{"run " + broken, "", 2, broken + ":1: "},
		{"run " + good + " --set group=1", "", 2, "--set group=1: group is 1: want at least 2"},
		{"run " + good + " --max-steps=-1", "", 2, "--max-steps -1"},
		{"run " + good + " --set model=/none --run-dir " + dir + "/r", "", 1, "model: stat /none"},
		{"run " + good + " --set scenario=nano/fr --run-dir " + dir + "/r2", "", 1, "no scenario nano/fr: there are "},
		{"run " + good + " --run-dir " + file, "", 1, "open run directory: mkdir "},
		{"run " + good + " --set model=embedded:none --run-dir " + dir + "/r3", "", 1, `model "embedded:none": the binary holds no such model; it has embedded:nano`},
		{"--log-level=loud version", "", 2, `--log-level "loud"`},
		{"rollout " + good, "", 2, "rollout: --out is missing"},
		{"rollout " + good + " --out - --user oracle", "", 1, `user "oracle": want "frozen" or "rules"`},
		{"rollout " + good + " --out " + dir + "/none/x.jsonl --sample 1", "", 1, "write " + dir + "/none/x.jsonl: "},
		{"eval " + good + " --greedy --temperature 1", "", 2, "--greedy and --temperature"},
		{"analyze " + text, "", 1, text + ":1: "},
		{"analyze " + empty, "", 1, empty + ": no dialogues"},
		{"analyze " + dir + "/none", "", 1, "open "},
		{"analyze -", "nonsense", 1, "-:1: no JSON object"},
		{"profiles nonsense", "", 2, `profiles: no command "nonsense"`},
		{"profiles validate " + empty, "", 1, empty + ": no profiles"},
		{"profiles validate -", "{}", 1, "-:1: "},
		{"sft --data x", "", 2, "sft: --out is missing"},
		{"sft --out x", "", 2, "defaults: model: missing"},
		{"score " + tiny + " -", `{"ids": [1, 99999]}`, 1, "-:1: "},
		{"score " + tiny + " -", `{"id": [1]}`, 1, `-:1: want either "ids" or "text"`},
		{"score " + dir + " -", "", 1, "load config: open "},
		{"score " + tiny + " - --dtype fp16", "", 2, `--dtype "fp16": want auto, fp32 or bf16`},
		{"score " + tiny + " - --threads 99999", "", 2, "--threads 99999: want 1 to 1024"},
		{"profiles sample -n 99999999", "", 2, "profiles sample: -n 99999999: want 1 to 1000000"},
		{"convert " + dir + " " + dir + "/out", "", 1, "convert " + dir},
		{"convert " + tiny + " " + dir, "", 1, "convert: " + dir + " exists already"},
		{"convert " + tiny + " " + dir + "/o --max-shard 5X", "", 2, `--max-shard "5X"`},
		{"completion fish", "", 2, `completion: no script for "fish"`},
	} {
		out, err, code := call(t, c.in, strings.Fields(c.args)...)
		err = withoutLog(err)
		first, rest, _ := strings.Cut(err, "\n")
		if code != c.code || !strings.HasPrefix(first, "seadtrain: "+c.want) {
			t.Errorf("%s: exit %d, %q; want %d, %q", c.args, code, err, c.code, "seadtrain: "+c.want)
		}
		if out != "" || strings.Contains(err, "goroutine") || (rest != "" && !strings.HasPrefix(rest, "seadtrain: ")) {
			t.Errorf("%s: not one line: %q on standard output, %q", c.args, out, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// withoutLog drops log lines.
func withoutLog(stderr string) string {
	var keep []string
	for _, line := range strings.Split(stderr, "\n") {
		if line != "" && !strings.HasPrefix(line, "time=") {
			keep = append(keep, line)
		}
	}
	return strings.Join(keep, "\n")
}

func TestHelp(t *testing.T) {
	help := must(t, "--help")
	for _, want := range []string{"EXIT CODES", "130 ", "143 ", "EXAMPLES", "run ", "sft ", "analyze ", "convert "} {
		if !strings.Contains(help, want) {
			t.Errorf("--help has no %q", want)
		}
	}
	if strings.Contains(help, "nano-corpus") {
		t.Error("--help shows a hidden command")
	}
	for _, cmd := range []string{"run", "rollout", "eval", "analyze", "profiles", "sft", "score", "convert", "completion"} {
		if out := must(t, cmd, "--help"); !strings.Contains(out, "EXAMPLES") {
			t.Errorf("%s --help has no examples", cmd)
		}
	}
	if out := must(t, "version"); !strings.Contains(out, "libtorch") {
		t.Errorf("version: %q", out)
	}
	// What a shell's completion asks.
	if out := must(t, "--generate-bash-completion"); !strings.Contains(out, "analyze") || !strings.Contains(out, "doctor") {
		t.Errorf("completion: %q", out)
	}
	if out := must(t, "run", "--r", "--generate-bash-completion"); !strings.Contains(out, "--run-dir") {
		t.Errorf("completion of a flag: %q", out)
	}
}

func TestRolloutEvalAnalyze(t *testing.T) {
	dir := t.TempDir()
	cfg := write(t, dir, "a.toml", testmodel.RunConfig(testmodel.Tiny(t, 1)))
	file := filepath.Join(dir, "d.jsonl")
	must(t, "rollout", cfg, "--sample", "4", "--group", "2", "--out", file)
	// The same dialogues on standard output, whatever the order of flags and arguments.
	if out := must(t, "rollout", "--out", "-", "--group=2", "--sample", "4", cfg); out != read(t, file) || strings.Count(out, "\n") != 8 {
		t.Errorf("standard output differs from the file:\n%s", out)
	}
	for _, line := range strings.Split(strings.TrimSpace(read(t, file)), "\n") {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"ground_truth_history", "chatbot_status", "final_status", "total_turns"} {
			if _, ok := r[key]; !ok {
				t.Errorf("a record without %s", key)
			}
		}
	}
	dialogues := filepath.Join(dir, "e.jsonl")
	report := must(t, "eval", cfg, "--profiles", "6", "--user", "rules", "--json", "--out", dialogues)
	var r struct{ Published, Normalised map[string]map[string]any }
	if err := json.Unmarshal([]byte(report), &r); err != nil {
		t.Fatal(err)
	}
	for _, m := range []map[string]map[string]any{r.Published, r.Normalised} {
		for _, name := range strings.Fields("cr att adt upa ei ti ci fpr scr") {
			for _, part := range []string{"value", "low", "high", "n"} {
				if _, ok := m[name][part]; !ok {
					t.Errorf("no %s.%s in %s", name, part, report)
				}
			}
		}
	}
	// Reading our own file back gives the same metrics.
	if again := must(t, "analyze", dialogues, "--json", "--seed", "1000"); again != report {
		t.Errorf("analyze says\n%s\neval said\n%s", again, report)
	}
	for _, args := range [][]string{{"analyze", dialogues}, {"analyze", dialogues, "--before", file}, {"eval", cfg, "--profiles", "3", "--greedy"}} {
		if out := must(t, args...); !strings.Contains(out, "completion rate") {
			t.Errorf("%q gives %q", args, out)
		}
	}
}

func TestProfiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "p.jsonl")
	must(t, "profiles", "sample", "-n", "30", "--scenario", "nano/en", "--out", file)
	if out := must(t, "profiles", "sample", "-n", "30", "--scenario", "nano/en"); out != read(t, file) {
		t.Error("standard output differs from the file")
	}
	if out := must(t, "profiles", "validate", file); !strings.Contains(out, "30 profiles, all valid for nano/en, in 30 of 120 states") {
		t.Errorf("validate: %q", out)
	}
	_, err, code := call(t, "", "profiles", "validate", file, "--scenario", "outbound/en")
	if code != 1 || !strings.Contains(err, "is of scenario nano/en, not outbound/en") || !strings.Contains(err, "more\n") {
		t.Errorf("another scenario: %d, %s", code, err)
	}
	if out := must(t, "profiles", "grid", "--scenario", "outbound/zh"); strings.Count(out, "\n") < 21 {
		t.Errorf("grid: %q", out)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
