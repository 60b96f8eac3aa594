package plan

import (
	"testing"

	"github.com/quire/quire/engine"
)

// What is needed and what there is are told apart, however close they are.
func TestSizesTellApart(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		needed, available int64
		want              [2]string
	}{
		{16*gib + gib/10, 15*gib + 3*gib/4, [2]string{"16.1 GiB", "15.8 GiB"}},
		{16*gib + gib/50, 16 * gib, [2]string{"16.02 GiB", "16.00 GiB"}},
		{16 * gib, 16 * gib, [2]string{"16.0 GiB", "16.0 GiB"}},
		{96 << 20, 64 << 20, [2]string{"96 MiB", "64 MiB"}},
	} {
		if needed, available := sizes(c.needed, c.available); [2]string{needed, available} != c.want {
			t.Errorf("%d of %d: %s of %s, want %s", c.needed, c.available, needed, available, c.want)
		}
	}
}

// Memory that is free is used by more sequences, where all that there are can have their longest.
func TestMoreSeqs(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		usable          bool
		kv, total, want int64
	}{{true, 16 * gib, 76 * gib, 256}, {true, 16 * gib, 130 * gib, 0}, {false, 16 * gib, 76 * gib, 0},
		{true, gib, 20 * gib, maxMoreSeqs}, {true, 0, gib, 0}} {
		r := &Report{Plan: engine.Plan{MaxSeqs: 64}, AllUsable: c.usable, KV: c.kv, Total: c.total,
			DeviceMemory: 139 * gib}
		if got := r.MoreSeqs(); got != int(c.want) {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
