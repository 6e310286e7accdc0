package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
	spoilt := write(t, dir, "spoilt.jsonl", `{"messages": [{"role": "user", "content": "a`+"\xff\"}]}\n")
	file := write(t, dir, "file", "")
	before := listing(t, dir)
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
		{"run " + good + " --set group=1", "", 2, "--set group=1: group is 1: want 2 to "},
		{"run " + good + " --max-steps=-1", "", 2, "--max-steps -1"},
		{"run " + good + " --set model=/none --run-dir " + dir + "/r", "", 1, "model: stat /none"},
		{"run " + good + " --set scenario=nano/fr --run-dir " + dir + "/r2", "", 2, "no scenario nano/fr: there are "},
		{"run " + good + " --set model=/none --runs " + dir + "/runs", "", 1, "model: stat /none"},
		{"run " + good + " --run-dir " + file, "", 1, "open run directory: mkdir "},
		{"run " + good + " --set model=embedded:none --run-dir " + dir + "/r3", "", 1, `model "embedded:none": the binary holds no such model; it has embedded:nano`},
		{"--log-level=loud version", "", 2, `--log-level "loud"`},
		{"rollout " + good, "", 2, "rollout: --out is missing"},
		{"rollout " + good + " --out - --user oracle", "", 2, `user "oracle": want "frozen" or "rules"`},
		{"rollout " + good + " --out " + dir + "/none/x.jsonl", "", 1, "write " + dir + "/none/x.jsonl: "},
		{"eval " + good + " --out " + dir, "", 1, "write " + dir + ": is a directory"},
		{"eval " + good + " --temperature -1", "", 2, "--temperature -1: want 0"},
		{"rollout " + good + " --out - --profiles " + dir + "/none", "", 1, "open " + dir + "/none: "},
		{"rollout " + good + " --out - --model=", "", 2, "--model: empty"},
		{"run " + good + " --run-dir=", "", 2, "--run-dir: empty"},
		{"run " + good + " --set rollout.max_turns=16", "", 2, "--set rollout.max_turns=16: rollout.max_turns: 16: want 1 to 15"},
		{"run " + good + " --set eval.resamples=99999999999", "", 2, "--set eval.resamples=99999999999: eval.resamples is 99999999999: want 1 to 1000000"},
		{"run " + good + " --set curriculum.profiles=1000000", "", 2, good + ":6: group is 3: with curriculum.profiles = 1000000 that is more than 1000000 dialogues"},
		{"run " + good + " --set rollout.agent.temperature=-1", "", 2, "--set rollout.agent.temperature=-1: rollout.agent.temperature: -1: want 0 (greedy) or more"},
		{"analyze " + text + " --resamples 99999999999", "", 2, "--resamples 99999999999: want 1 to 1000000"},
		{"analyze " + text + " --scenario foo", "", 2, `--scenario: scenario "foo": want a name`},
		{"profiles sample --scenario foo", "", 2, `scenario "foo": want a name`},
		{"profiles grid --checkpoint nope", "", 1, "nope is no checkpoint of a run: open nope/trainer/"},
		{"eval " + good + " --greedy --temperature 1", "", 2, "--greedy and --temperature"},
		{"analyze " + text, "", 1, text + ":1: "},
		{"analyze " + empty, "", 1, empty + ": no dialogues"},
		{"analyze " + dir + "/none", "", 1, "open "},
		{"analyze -", "nonsense", 1, "-:1: no JSON object"},
		{"analyze -", "{}", 1, "-:1: ground_truth_history: missing"},
		{"analyze -", "{\"id\": \"\xff\"}", 1, "-:1: byte 9 of the line, 0xff, is not valid UTF-8"},
		{"profiles nonsense", "", 2, `profiles: no command "nonsense"`},
		{"profiles validate " + empty, "", 1, empty + ": no profiles"},
		{"profiles validate -", "{}", 1, "-:1: "},
		{"sft --data x", "", 2, "sft: --out is missing"},
		{"sft --out x", "", 2, "defaults: model: missing"},
		{"sft --out x --model m --data d --lr abc", "", 2, `--lr abc: "abc": want a number`},
		{"sft --out " + dir + "/s --model /none --data " + dir + "/typo", "", 1, "read conversations: stat " + dir + "/typo: "},
		{"sft --out " + dir + "/s --model " + tiny + " --data " + spoilt, "", 1, spoilt + ":1: byte 45 of the line, 0xff, is not valid UTF-8"},
		{"score " + tiny + " -", `{"ids": [1, 99999]}`, 1, "-:1: "},
		{"score " + tiny + " -", `{"id": [1]}`, 1, `-:1: want either "ids" or "text"`},
		{"score " + tiny + " -", "{\"text\": \"\xff\"}", 1, "-:1: byte 11 of the line, 0xff, is not valid UTF-8"},
		{"score " + tiny + " -", `{"ids": ["a"]}`, 1, `-:1: want {"ids": [1, 2, …]} or {"text": "…"}: ids: a JSON string does not fit there`},
		{"score " + tiny + " " + dir, "", 1, "read " + dir + ": is a directory"},
		{"score " + tiny + " " + dir + "/none", "", 1, "open " + dir + "/none: "},
		{"score " + tiny + " - --batch-tokens 99999999999", "", 2, "--batch-tokens 99999999999: want 1 to "},
		{"score " + dir + " -", "", 1, "load config: open "},
		{"score " + tiny + " - --dtype fp16", "", 2, `--dtype "fp16": want auto, fp32 or bf16`},
		{"score " + tiny + " - --threads 99999", "", 2, "--threads 99999: want 1 to 1024"},
		{"profiles sample -n 99999999", "", 2, "profiles sample: -n 99999999: want 1 to 1000000"},
		{"convert " + dir + " " + dir + "/out", "", 1, "convert " + dir},
		{"convert " + tiny + " " + dir, "", 1, "convert: " + dir + " exists already"},
		{"convert " + tiny + " " + dir + "/o --dtype int8", "", 2, `convert: dtype "int8": want `},
		{"convert " + tiny + " " + dir + "/o --max-shard 5X", "", 2, `--max-shard "5X"`},
		{"completion fish", "", 2, `completion: no script for "fish"`},
	} {
		out, err, code := call(t, c.in, strings.Fields(c.args)...)
		err = withoutLog(err)
		first, rest, more := strings.Cut(err, "\n")
		place, _, _ := strings.Cut(c.want, ": ") // that further lines begin with, too
		if code != c.code || !strings.HasPrefix(first, "seadtrain: "+c.want) {
			t.Errorf("%s: exit %d, %q; want %d, %q", c.args, code, err, c.code, "seadtrain: "+c.want)
		}
		if out != "" || strings.Contains(err, "goroutine") || more && !strings.HasPrefix(rest, "seadtrain: "+place+": ") {
			t.Errorf("%s: not one line: %q on standard output, %q", c.args, out, err)
		}
	}
	if left := listing(t, dir); left != before { // a start that fails leaves nothing to stumble over
		t.Errorf("left behind:\n%s\nthere were\n%s", left, before)
	}
}

// listing is what a folder holds, hidden files and all.
func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// Several faults are several lines, each with its place, and few of many; an end by a signal does not hide another error.
func TestFaults(t *testing.T) {
	leaf := errors.Join(errors.New("a"), errors.New("b"))
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("f:1: %w", leaf), "f:1: a|f:1: b"},
		{usage(fmt.Errorf("x: %w", errors.Join(errors.New("c"), fmt.Errorf("f:1: %w", leaf)))), "x: c|x: f:1: a|x: f:1: b"},
		{fmt.Errorf("%w in %w", errors.New("c"), errors.New("d")), "c in d"},
		{errors.Join(fmt.Errorf("one: %w", errors.New("c")), nil), "one: c"},
	} {
		var got []string
		for _, e := range faults(c.err) {
			got = append(got, e.Error())
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%q, want %s", got, c.want)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(signalError{syscall.SIGTERM})
	for _, c := range []struct {
		err  error
		want string
	}{{context.Canceled, "<nil>"}, {fmt.Errorf("step: %w", context.Canceled), "<nil>"}, {errors.Join(context.Canceled, errors.New("disk full")), "disk full"}} {
		if by, is, other := stopped(ctx, c.err); !is || by.code() != 143 || fmt.Sprint(other) != c.want {
			t.Errorf("%v: %v, %v, %v", c.err, by, is, other)
		}
	}
	dir := t.TempDir()
	lines := write(t, dir, "p.jsonl", strings.Repeat("{}\n", 9))
	if _, err, _ := call(t, "", "profiles", "validate", lines, "--scenario", "nano/en"); strings.Count(err, "seadtrain: "+lines+":") != 5 || !strings.HasSuffix(err, "… and 13 more\n") {
		t.Errorf("nine lines with two faults each: %s", err)
	}
	small := testmodel.Tiny(t, 1)
	config := filepath.Join(small, "config.json")
	write(t, small, "config.json", strings.Replace(read(t, config), `"num_hidden_layers": 1`, `"num_hidden_layers": 2`, 1))
	_, err, code := call(t, `{"ids": [1]}`, "score", small, "-")
	for line := range strings.Lines(err) {
		if !strings.HasPrefix(line, "seadtrain: load "+small+": tensor \"model.layers.1.") && !strings.HasPrefix(line, "seadtrain: … and ") {
			t.Errorf("a line that does not say where: %q", line)
		}
	}
	if code != 1 || strings.Count(err, "\n") != 6 {
		t.Errorf("a layer that is missing: exit %d, %s", code, err)
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
	full := program(t, "--help")
	full.Stdout, _ = os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if full.Run(); full.ProcessState.ExitCode() != 1 {
		t.Errorf("--help onto a full disk: exit %d", full.ProcessState.ExitCode())
	}
	if out := must(t, "rollout", "--help"); !strings.Contains(out, "(default: the config's)") {
		t.Errorf("the default of --temperature: %s", out)
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
	if again := must(t, "analyze", dialogues, "--json"); again != report {
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
