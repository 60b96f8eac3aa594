package testenv

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine/lockstep"
)

// hostVariable makes a test process one of several: address, number of processes, number of this one, argument.
const hostVariable = "QUIRE_TEST_HOST"

// FreeAddress returns a local address on which nobody listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// RunHosts runs the calling test, which must not be a subtest, in several processes, in which [AsHost] returns true.
// It returns what each wrote, and how it ended.
func RunHosts(t *testing.T, processes int, argument string) (output []string, failures []error) {
	t.Helper()
	address := FreeAddress(t)
	output, failures = make([]string, processes), make([]error, processes)
	var wg sync.WaitGroup
	for id := range processes {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1",
				"-test.timeout=5m", fmt.Sprintf("-test.short=%t", testing.Short()))
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d|%d|%s", hostVariable, address, processes, id,
				argument))
			text, err := cmd.CombinedOutput()
			output[id], failures[id] = string(text), err
		})
	}
	wg.Wait()
	return output, failures
}

// AsHost joins the other processes of [RunHosts], if this is one of them.
func AsHost(t *testing.T) (group *lockstep.Group, argument string, ok bool) {
	t.Helper()
	fields := strings.SplitN(os.Getenv(hostVariable), "|", 4)
	if len(fields) < 4 {
		return nil, "", false
	}
	// a dead process is noticed earlier, or else the test hangs
	o := lockstep.Options{CoordinatorAddress: fields[0], HeartbeatTimeout: time.Hour}
	var err error
	for i, field := range []*int{&o.NumProcesses, &o.ProcessID} {
		if *field, err = strconv.Atoi(fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if group, err = lockstep.Join(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return group, fields[3], true
}

// GroupOver returns a backend on that many virtual CPU devices of each process together.
func GroupOver(t *testing.T, group *lockstep.Group, devices int) *xla.Backend {
	t.Helper()
	b := ownXLA(t, devices, xla.Options{})
	list := make([]int, devices)
	for i := range list {
		list[i] = i
	}
	over, err := b.GroupOver(group, list...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(over.Finalize)
	return over
}
