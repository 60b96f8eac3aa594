package xla

import (
	"errors"
	"slices"
	"testing"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// The devices of a host have places by the numbers that libtpu gives them: a host's are no range of them.
func TestDevicesOfASlice(t *testing.T) {
	plugin, err := setup.FindPlugin("tpu")
	if err != nil {
		t.Skip(`libtpu is not installed ("sample setup tpu" fetches it)`)
	}
	b, err := OpenTopology(TopologyOptions{Plugin: plugin, Name: "v5e:4x4"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	all := b.topology.described.Devices
	var places []int
	byHost := map[int][]int{}
	for _, d := range all {
		byHost[d.Process] = append(byHost[d.Process], d.ID)
	}
	for host, here := range byHost {
		slices.Reverse(here)
		h := &hosts{count: len(byHost), partitions: len(all)}
		ids, order, err := h.arrange(all, here)
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			if id != i {
				t.Errorf("place %d is device %d: a program for the topology names others", i, id)
			}
		}
		for i, place := range h.places {
			if ids[place] != here[order[i]] {
				t.Errorf("host %d: place %d is device %d, not %d", host, place, ids[place], here[order[i]])
			}
		}
		if !slices.IsSorted(h.places) {
			t.Errorf("host %d: places %v", host, h.places)
		}
		places = append(places, h.places...)
	}
	t.Logf("%d hosts: %v", len(byHost), byHost)
	slices.Sort(places)
	if len(byHost) < 2 || len(slices.Compact(places)) != len(all) {
		t.Errorf("%d hosts have the places %v", len(byHost), places)
	}
	if _, _, err := (&hosts{count: 2, partitions: 8}).arrange([]pjrtc.Device{{ID: 0}, {ID: 1}},
		[]int{0}); !errors.Is(err, ErrHosts) {
		t.Error(err)
	}
}
