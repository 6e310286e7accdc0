package torch

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Ranks are real processes: this test binary again, with a scenario to play (see TestMain).

const patience = 2 * time.Minute // a machine may be very busy; nothing waits so long on one that is not

var scenarios = map[string]func(*Comm) error{
	"collectives": playCollectives,
	"victim":      playVictim,
	"mismatch":    playMismatch,
}

func TestMain(m *testing.M) {
	if name := os.Getenv("SEAD_TEST_SCENARIO"); name != "" {
		if err := playRank(name); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(CheckLeaks(m.Run))
}

func playRank(name string) error {
	number := func(key string) int { n, _ := strconv.Atoi(os.Getenv(key)); return n }
	store, err := OpenStore("127.0.0.1", number("SEAD_TEST_PORT"), false, 0, patience)
	if err != nil {
		return err
	}
	defer store.Close()
	c, err := store.Gloo("world", number("SEAD_TEST_RANK"), number("SEAD_TEST_SIZE"), patience)
	if err != nil {
		return err
	}
	defer c.Close()
	return scenarios[name](c)
}

// ranks plays a scenario in size processes and gives what each printed, and how it ended.
func ranks(t *testing.T, name string, size int) (out []string, errs []error) {
	store, err := OpenStore("127.0.0.1", 0, true, size+1, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	out, errs = make([]string, size), make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "SEAD_TEST_SCENARIO="+name, fmt.Sprint("SEAD_TEST_PORT=", store.Port),
			fmt.Sprint("SEAD_TEST_RANK=", r), fmt.Sprint("SEAD_TEST_SIZE=", size))
		var buf bytes.Buffer
		cmd.Stdout, cmd.Stderr = &buf, &buf
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[r] = cmd.Wait()
			end.Stop()
			out[r] = buf.String()
		}()
	}
	wg.Wait()
	return out, errs
}

func TestCollectives(t *testing.T) {
	for _, size := range []int{2, 3, 4} {
		out, errs := ranks(t, "collectives", size)
		for r, err := range errs {
			if err != nil || !strings.HasSuffix(out[r], "fine\n") {
				t.Errorf("rank %d of %d: %v\n%s", r, size, err, out[r])
			}
		}
	}
}

// Small integers, which every dtype holds exactly. With s ranks Σ rank = s(s-1)/2.
func playCollectives(c *Comm) error {
	live := Live()
	err := Try(func() error {
		s, me := float64(c.Size()), float64(c.Rank())
		sum := s * (s - 1) / 2
		for _, dt := range []DType{F32, BF16, F64} {
			same := func(what string, got *Tensor, want ...float64) error {
				if g := Data[float64](got); !slices.Equal(g, want) || got.DType() != dt {
					return fmt.Errorf("%s in %v: %v, want %v", what, got, g, want)
				}
				return nil
			}
			of := func(v ...float64) *Tensor { return Of(v).To(dt, CPU) }
			var each []float64 // rank 0's pair, rank 1's pair, …
			long := make([]float64, 2*c.Size())
			for r := range c.Size() {
				each = append(each, float64(r), float64(10*r))
				long[2*r], long[2*r+1] = me, float64(r)
			}
			gathered := c.AllGather(of(me, 10*me))
			if err := errors.Join(
				same("all-reduce", c.AllReduceInPlace(of(me, 1, -me)), sum, s, -sum),
				same("maximum", c.AllReduceMaxInPlace(of(me, -me)), s-1, 0),
				same("all-gather", gathered, each...),
				same("all-gather's last", gathered.Narrow(0, int64(c.Size())-1, 1), s-1, 10*(s-1)),
				same("reduce-scatter", c.ReduceScatter(of(long...)), sum, s*me),
				same("reduce-scatter of rows", c.ReduceScatter(of(long...).Reshape(int64(c.Size()), 2)), sum, s*me),
				same("broadcast", c.BroadcastInPlace(of(me, 7), c.Size()-1), s-1, 7),
			); err != nil {
				return err
			}
		}
		c.Barrier()
		if got := c.SumFloats([]float64{me, .5}); got[0] != sum || got[1] != s/2 {
			return fmt.Errorf("sum of floats %v", got)
		}
		if got := c.GatherFloats([]float64{me}); len(got) != c.Size() || got[c.Size()-1][0] != s-1 {
			return fmt.Errorf("gathered floats %v", got)
		}
		// Rank 0 computes long: the others wait for it.
		if c.Rank() == 0 {
			time.Sleep(300 * time.Millisecond)
		}
		start := time.Now()
		c.Barrier()
		if waited := time.Since(start); c.Rank() != 0 && waited < 100*time.Millisecond {
			return fmt.Errorf("the barrier is passed after %v", waited)
		}
		return nil
	})
	if err == nil && Live() != live {
		err = fmt.Errorf("%d handles, %d before", Live(), live)
	}
	if err == nil {
		fmt.Println("fine")
	}
	return err
}

// A rank that dies in the middle: the others get an error that names group, op and rank, long before the deadline.
func TestDeadRank(t *testing.T) {
	for _, size := range []int{2, 3} {
		out, errs := ranks(t, "victim", size)
		for r, err := range errs {
			if r == 1 {
				if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 9 {
					t.Errorf("the victim ends with %v\n%s", err, out[r])
				}
			} else if err != nil || !strings.HasSuffix(out[r], "noticed\n") {
				t.Errorf("rank %d of %d: %v\n%s", r, size, err, out[r])
			}
		}
	}
}

func playVictim(c *Comm) error {
	return Try(func() error {
		c.AllReduceInPlace(Zeros(F32, CPU, 4))
		if c.Rank() == 1 {
			os.Exit(9)
		}
		start := time.Now()
		var e *Error
		err := Do(func() { c.AllReduceInPlace(Zeros(F32, CPU, 1<<20)) })
		want := fmt.Sprintf("all_reduce[world rank %d/%d]", c.Rank(), c.Size())
		if !errors.As(err, &e) || e.Code != CodeDist || e.Op != want {
			return fmt.Errorf("a peer died, and the error is %v, want code %d of %s", err, CodeDist, want)
		}
		if took := time.Since(start); took > patience/4 {
			return fmt.Errorf("it took %v", took)
		}
		fmt.Println("noticed")
		return nil
	})
}

// Arguments that do not fit fail on the spot, without waiting for the other ranks.
func TestCollectiveArguments(t *testing.T) {
	out, errs := ranks(t, "mismatch", 2)
	for r, err := range errs {
		if err != nil || !strings.HasSuffix(out[r], "refused\n") {
			t.Errorf("rank %d: %v\n%s", r, err, out[r])
		}
	}
}

func playMismatch(c *Comm) error {
	return Try(func() error {
		for name, f := range map[string]func(){
			"strided":        func() { c.AllReduceInPlace(Zeros(F32, CPU, 2, 3).Transpose(0, 1)) },
			"does not halve": func() { c.ReduceScatter(Zeros(F32, CPU, 3)) },
			"a scalar":       func() { c.ReduceScatter(Zeros(F32, CPU)) },
		} {
			var e *Error
			if err := Do(f); !errors.As(err, &e) || e.Code != CodeShape {
				return fmt.Errorf("%s: %v", name, err)
			}
		}
		c.Barrier() // the group is still whole
		fmt.Println("refused")
		return nil
	})
}

// A group of one does nothing: results are the operands.
func TestSolo(t *testing.T) {
	store, err := OpenStore("127.0.0.1", 0, true, 1, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	opened, err := store.Gloo("one", 0, 1, patience)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Comm{Solo(), opened} {
		do(t, func() {
			x := Of([]float32{1, 2})
			if c.AllReduceInPlace(x) != x || c.AllReduceMaxInPlace(x) != x || c.ReduceScatter(x) != x || c.BroadcastInPlace(x, 0) != x {
				t.Error("a collective of one makes a copy")
			}
			c.Barrier()
			if s := c.AllGather(x).Shape(); !slices.Equal(s, []int64{1, 2}) || !slices.Equal(Data[float32](x), []float32{1, 2}) {
				t.Error(s, Data[float32](x))
			}
			if got := c.GatherFloats(c.SumFloats([]float64{3})); got[0][0] != 3 || c.Rank() != 0 || c.Size() != 1 {
				t.Error(got, c)
			}
		})
		c.Close()
		c.Close()
	}
}

func TestStoreErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := taken.Addr().(*net.TCPAddr).Port
	_, err = OpenStore("127.0.0.1", port, true, 1, time.Second)
	distError(t, "a port that is taken", err, fmt.Sprint("store 127.0.0.1:", port), "in use")
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err = OpenStore("127.0.0.1", port, false, 1, time.Second)
	distError(t, "no server", err, fmt.Sprint("store 127.0.0.1:", port))
	if took := time.Since(start); took > patience/4 {
		t.Errorf("a store that nobody serves is given up after %v", took)
	}
	store, err := OpenStore("127.0.0.1", 0, true, 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Gloo("half", 1, 2, time.Second)
	distError(t, "a rank that never comes", err, "group half, rank 1 of 2")
	store.Close()
	store.Close()
}

func distError(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeDist {
		t.Errorf("%s: %v, want an error of the network", what, err)
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %q does not tell %q", what, err, p)
		}
	}
	if len(err.Error()) > 600 {
		t.Errorf("%s: %d letters: %v", what, len(err.Error()), err)
	}
	t.Log(err)
}
