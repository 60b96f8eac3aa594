package xla

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// Hosts are the processes, one per host, whose devices run programs together. All of them make the same group, build
// the same programs, and execute them in the same order: package lockstep ensures that.
type Hosts interface {
	NumProcesses() int
	ProcessID() int
	// Exchange returns what all processes give for the same device on the same occasion, by process. It is called if
	// the plugin itself does not reach the other processes. Its error becomes the error of the execution.
	Exchange(device int, channel uint64, data []byte) ([][]byte, error)
}

// hosts is what a group knows about the processes that have its devices.
type hosts struct {
	count      int
	partitions int   // the number of devices of all processes
	places     []int // of this process' devices among them
	// exchange reports that each process compiles for its own devices only, and that its programs exchange numbers with
	// other processes by a kernel. Otherwise the plugin compiles for the devices of all processes.
	exchange bool
}

// ErrHosts is returned if devices of several processes can't run programs together on the platform.
var ErrHosts = errors.New("xla: one program on the devices of several hosts is not possible here")

// arrange orders all devices of a slice by the plugin's numbers, as a program that was compiled ahead for the topology
// does, and sets the places of this process' devices. here has their numbers. order is their order by number.
func (h *hosts) arrange(all []pjrtc.Device, here []int) (ids, order []int, err error) {
	processes := map[int]int{}
	for _, d := range all {
		ids = append(ids, d.ID)
		processes[d.Process]++
	}
	if len(processes) != h.count || len(ids) != h.partitions {
		return nil, nil,
			fmt.Errorf(
				"%w: there are %d processes with %d devices each, but the slice has %d devices on %d hosts: run one "+
					"process on each host, with all of its devices",
				ErrHosts, h.count, len(here), len(ids), len(processes))
	}
	slices.Sort(ids)
	for i := range here {
		order = append(order, i)
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(here[i], here[j]) })
	for _, i := range order {
		h.places = append(h.places, slices.Index(ids, here[i]))
	}
	return ids, order, nil
}

// disconnect ends the exchange with other processes.
func (h *hosts) disconnect() {
	if h != nil && h.exchange {
		_ = cpukernel.SetExchange(nil)
	}
}
