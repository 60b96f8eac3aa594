package xla_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine/lockstep"
	"github.com/quire/quire/internal/testenv"
)

// asHost makes a group over the devices of several processes, where this is one of them.
func asHost(t *testing.T) (group *lockstep.Group, backend *xla.Backend, devices int, ok bool) {
	group, argument, ok := testenv.AsHost(t)
	if !ok {
		return nil, nil, 0, false
	}
	devices, err := strconv.Atoi(argument)
	if err != nil {
		t.Fatal(err)
	}
	return group, testenv.GroupOver(t, group, devices), devices, true
}

// Devices of several processes run one program on arrays of their own, in a loop that exchanges numbers, with state
// updated in place.
func TestGroupOverHosts(t *testing.T) {
	group, b, devices, ok := asHost(t)
	if !ok {
		for _, c := range []struct{ processes, devices int }{{2, 1}, {2, 2}, {3, 1}} {
			output, failures := testenv.RunHosts(t, c.processes, fmt.Sprint(c.devices))
			if err := errors.Join(failures...); err != nil {
				t.Errorf("%d processes of %d devices: %v\n%s", c.processes, c.devices, err, strings.Join(output, "\n"))
			}
		}
		return
	}
	n := b.Partitions()
	places := b.Places()
	if n != group.NumProcesses()*devices || len(places) != devices || places[0] != group.ProcessID()*devices {
		t.Fatalf("%d partitions, places %v", n, places)
	}
	e := groupProgram(t, b.Donating(map[string]int{"state": 0}), n)
	if m, err := e.Memory(); err != nil || m.Aliased != 4*8*4 {
		t.Errorf("%d bytes are updated in place, want %d: %v", m.Aliased, 4*8*4, err)
	}
	shape := shapes.Make(dtypes.Float32, 4, 8)
	var parts []compute.Buffer
	for i, place := range places {
		member, err := b.Member(i)
		if err != nil {
			t.Fatal(err)
		}
		part, err := member.BufferFromFlatData(0, slices.Repeat([]float32{float32(place + 1)}, 32), shape)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
	}
	own, err := b.Join(parts)
	if err != nil {
		t.Fatal(err)
	}
	state, err := b.BufferFromFlatData(0, slices.Repeat([]float32{100}, 32), shape)
	if err != nil {
		t.Fatal(err)
	}
	rounds, err := b.BufferFromFlatData(0, []int32{30}, shapes.Make(dtypes.Int32))
	if err != nil {
		t.Fatal(err)
	}
	sum := float32(n * (n + 1) / 2)
	for turn := 1; turn <= 3; turn++ {
		out, err := e.Execute([]compute.Buffer{state, own, rounds}, []bool{true, false, false}, 0)
		if err != nil {
			t.Fatal(err)
		}
		state = out[0]
		for i := range devices {
			got, all := make([]float32, 32), make([]float32, 4*n)
			if err := errors.Join(out[0].(*xla.Buffer).Parts()[i].ToFlatData(got),
				out[1].(*xla.Buffer).Parts()[i].ToFlatData(all)); err != nil {
				t.Fatal(err)
			}
			if want := 100 + 30*sum*float32(turn); got[31] != want {
				t.Errorf("turn %d: the sum on device %d is %v, want %v", turn, i, got[31], want)
			}
			for place := range n {
				if all[n+place] != float32(place+1) {
					t.Errorf("turn %d: device %d has %v", turn, i, all[:n])
				}
			}
		}
	}
	checkExchanges(t, b)
	if err := group.Agree("the end", nil); err != nil {
		t.Fatal(err)
	}
	if group.Leads() {
		group.End(0)
	}
	<-group.Done()
}

// A process that dies in the middle of a program ends it in the others, with an error that names it.
func TestHostDies(t *testing.T) {
	group, b, _, ok := asHost(t)
	if !ok {
		output, failures := testenv.RunHosts(t, 2, "1")
		if failures[0] != nil || failures[1] == nil || !strings.Contains(output[1], "dies") {
			t.Errorf("%v\n%s", failures, strings.Join(output, "\n"))
		}
		return
	}
	e := groupProgram(t, b.Donating(map[string]int{"state": 0}), b.Partitions())
	shape := shapes.Make(dtypes.Float32, 4, 8)
	in := make([]compute.Buffer, 3)
	for i, x := range []any{make([]float32, 32), make([]float32, 32), []int32{1 << 30}} { // hours
		if i == 2 {
			shape = shapes.Make(dtypes.Int32)
		}
		var err error
		if in[i], err = b.BufferFromFlatData(0, x, shape); err != nil {
			t.Fatal(err)
		}
	}
	if !group.Leads() {
		go func() {
			time.Sleep(300 * time.Millisecond)
			fmt.Println("dies")
			os.Exit(1)
		}()
	}
	_, err := e.Execute(in, []bool{true, false, false}, 0)
	var lost *lockstep.LostError
	if err == nil || !strings.Contains(err.Error(), "process 1 is lost") || !errors.As(group.Err(), &lost) {
		t.Fatal(err)
	}
}

func TestGroupOverErrors(t *testing.T) {
	alone, err := lockstep.Join(t.Context(), lockstep.Options{NumProcesses: 1})
	if err != nil {
		t.Fatal(err)
	}
	g, err := newBackend(t, xla.Options{ClientOptions: map[string]any{"cpu_device_count": 2}}).GroupOver(alone, 1)
	if err != nil || g.Partitions() != 1 || !slices.Equal(g.Places(), []int{0}) {
		t.Errorf("one process alone: %v", err)
	}
	if _, err := testenv.Topology(t, "v5e:2x2").GroupOver(twoProcesses{}, 0); !errors.Is(err, xla.ErrHosts) {
		t.Error(err)
	}
}

type twoProcesses struct{}

func (twoProcesses) NumProcesses() int                              { return 2 }
func (twoProcesses) ProcessID() int                                 { return 0 }
func (twoProcesses) Exchange(int, uint64, []byte) ([][]byte, error) { return nil, nil }
