package share_test

import (
	"testing"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/share"
)

// Replicas that end before the last one wait for the rest of the time.
func TestSumOfStats(t *testing.T) {
	sum := share.SumStats([]schedule.Stats{{WallSeconds: 10, DeviceSeconds: 9, HostSeconds: 1},
		{WallSeconds: 4, DeviceSeconds: 3, HostSeconds: 1}})
	if sum.WallSeconds != 10 || sum.DeviceSeconds != 6 || sum.HostSeconds != 4 {
		t.Errorf("%+v", sum)
	}
}
