// Command seadtrain trains service agents by the method SEAD: users sampled from a grid of states, dialogues with a
// frozen role-play model, GRPO, and error analysis that chooses the next users.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"seadtrain/internal/progress"
)

// Exit codes besides 0 and, for a signal, 128 and its number; the help texts and the README list them.
const (
	exitError = 1 // what was asked for could not be done
	exitUsage = 2 // a flag, an argument or a config is wrong
)

// Lines that many faults give: of a config all, in reason, since they are mended at once.
const maxErrors, maxUsageErrors = 5, 20

// stderr is where progress and log go, stdout where results go.
var (
	stderr = progress.New(os.Stderr)
	stdout = &output{File: os.Stdout}
)

// output remembers the first error: who prints a help text does not look.
type output struct {
	*os.File
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.File.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

func main() {
	passive()
	os.Exit(run(os.Args))
}

func run(argv []string) int {
	app := newApp()
	argv = reorder(app, argv)
	ctx, stop := stopOnSignal(onStop(app, argv))
	defer stop()
	err := app.RunContext(ctx, argv)
	stderr.Clear()
	if err == nil {
		err = stdout.err
	}
	if err == nil {
		return 0
	}
	var usage *usageError
	code, most := exitError, maxErrors
	if errors.As(err, &usage) {
		code, most = exitUsage, maxUsageErrors
	}
	sig, signalled, err := stopped(ctx, err)
	if signalled {
		fmt.Fprintf(stderr, "seadtrain: stopped by %s\n", sig)
	}
	if err == nil {
		return sig.code()
	}
	all := faults(err)
	for _, e := range all[:min(len(all), most)] {
		fmt.Fprintln(stderr, "seadtrain:", strings.ReplaceAll(e.Error(), "\n", " "))
	}
	if n := len(all) - most; n > 0 {
		fmt.Fprintf(stderr, "seadtrain: … and %d more\n", n)
	}
	return code
}

// onStop is what the command says when it is stopped.
func onStop(app *cli.App, argv []string) string {
	at := slices.IndexFunc(argv, func(a string) bool { return app.Command(a) != nil })
	if at >= 0 && (argv[at] == "run" || argv[at] == "sft") {
		return "stopping with a checkpoint of the last complete step where there is one to write"
	}
	return "stopping"
}

// faults lists what an error joins; each keeps the file, line or task that the whole names in front.
func faults(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok && err.Error() == fmt.Sprint(errors.Join(many.Unwrap()...)) {
		var all []error
		for _, e := range many.Unwrap() {
			all = append(all, faults(e)...)
		}
		return all
	}
	inner := errors.Unwrap(err)
	all := faults(inner)
	if len(all) < 2 {
		return []error{err}
	}
	before, ok := strings.CutSuffix(err.Error(), inner.Error())
	if !ok {
		return []error{err}
	}
	for i, e := range all {
		all[i] = fmt.Errorf("%s%w", before, e)
	}
	return all
}

// usageError is an error of the command line or of a config, not of the work.
type usageError struct{ error }

func (u *usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// passive starts the program again, once, in the same process, with OpenMP threads that sleep while they wait. libgomp
// reads the variables when it is loaded, before main; its default, spinning, makes two-thread work several times slower as
// soon as other processes want the cores (SFT of the nano model on two busy cores: 350 tokens/s against 1,070). Some
// microseconds of spinning first spare most of the wake-ups: a nano rollout gains a fifth, and loses little beside others.
// Weights and KV cache go to huge pages where the system gives them on request: streaming is a tenth faster.
func passive() {
	if policy := os.Getenv("OMP_WAIT_POLICY"); policy != "" && !strings.EqualFold(policy, "passive") || os.Getenv("GOMP_SPINCOUNT") != "" {
		return
	}
	self, err := os.Executable()
	err = errors.Join(err, os.Setenv("OMP_WAIT_POLICY", "passive"), os.Setenv("GOMP_SPINCOUNT", "1000"), hugePages())
	if err == nil {
		err = syscall.Exec(self, os.Args, os.Environ())
	}
	slog.Warn("cannot restart with OMP_WAIT_POLICY=passive; set it yourself beside other work", "error", err)
}

// hugePages has libtorch ask for them, unless the user has decided.
func hugePages() error {
	if _, set := os.LookupEnv("THP_MEM_ALLOC_ENABLE"); set {
		return nil
	}
	return os.Setenv("THP_MEM_ALLOC_ENABLE", "1")
}

// setLog sends the log to standard error, above the progress line.
func setLog(c *cli.Context) error {
	level := slog.LevelInfo
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return usagef("--log-level %q: want debug, info, warn or error", c.String("log-level"))
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: shortTime})))
	return nil
}

// shortTime leaves out the date: a run's directory has it.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.String(slog.TimeKey, a.Value.Time().Format("15:04:05"))
	}
	return a
}
