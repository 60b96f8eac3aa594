package load

import (
	"maps"
	"strings"
	"testing"

	"github.com/quire/quire/batch/spec"
)

// What libtpu is to find, by what there is.
func TestTPUEnvironment(t *testing.T) {
	const slice = "TPU_WORKER_HOSTNAMES=a,b,c,d TPU_WORKER_ID=2 "
	alone := func(chips, bounds, port string, more ...string) string {
		return strings.Join(append([]string{"TPU_VISIBLE_CHIPS=" + chips, "TPU_CHIPS_PER_PROCESS_BOUNDS=" + bounds,
			"TPU_PROCESS_BOUNDS=1,1,1", "TPU_PROCESS_ADDRESSES=localhost:" + port, "TPU_PROCESS_PORT=" + port,
			"CLOUD_TPU_TASK_ID=0", "TPU_WORKER_HOSTNAMES=localhost", "TPU_WORKER_ID=0"}, more...), " ")
	}
	for _, c := range []struct {
		name, environ string
		chips         int
		together      bool
		want, fails   string
	}{
		{name: "a host of its own", environ: "HOME=/x", chips: 4},
		{name: "one slice, one host", environ: "TPU_WORKER_HOSTNAMES=localhost TPU_WORKER_ID=0", chips: 4},
		{name: "all hosts of a slice", environ: slice + "TPU_HOST_BOUNDS=2,2,1", chips: 4, together: true},
		{name: "a slice of several", environ: slice + "MEGASCALE_NUM_SLICES=2 MEGASCALE_SLICE_ID=1 " +
			"MEGASCALE_COORDINATOR_ADDRESS=x:1", chips: 4, together: true,
			want: "MEGASCALE_NUM_SLICES= MEGASCALE_SLICE_ID= MEGASCALE_COORDINATOR_ADDRESS="},
		{name: "a shard on each host", environ: slice + "TPU_CHIPS_PER_HOST_BOUNDS=2,2,1 TPU_HOST_BOUNDS=2,2,1",
			chips: 4, want: alone("0,1,2,3", "2,2,1", "8480", "TPU_CHIPS_PER_HOST_BOUNDS=", "TPU_HOST_BOUNDS=")},
		{name: "whose bounds are the slice's", environ: slice + "TPU_PROCESS_BOUNDS=2,2,1 MEGASCALE_SLICE_ID=0",
			chips: 8, want: alone("0,1,2,3,4,5,6,7", "2,4,1", "8480", "MEGASCALE_SLICE_ID=")},
		{name: "a worker with a chip", environ: "TPU_VISIBLE_CHIPS=3", chips: 4,
			want: strings.ReplaceAll(alone("3", "1,1,1", "8483", "ALLOW_MULTIPLE_LIBTPU_LOAD=1"),
				"TPU_VISIBLE_CHIPS=3 ", "")},
		{name: "by the older name", environ: "TPU_VISIBLE_DEVICES=2,3", chips: 4,
			want: alone("2,3", "1,2,1", "8482", "ALLOW_MULTIPLE_LIBTPU_LOAD=1", "TPU_VISIBLE_DEVICES=")},
		{name: "half of a host of a slice", environ: slice + "TPU_VISIBLE_CHIPS=4,5,6,7", chips: 8,
			want: strings.ReplaceAll(alone("4,5,6,7", "2,2,1", "8484", "ALLOW_MULTIPLE_LIBTPU_LOAD=1"),
				"TPU_VISIBLE_CHIPS=4,5,6,7 ", "")},
		{name: "bounds of the user", environ: "TPU_VISIBLE_CHIPS=1 TPU_PROCESS_BOUNDS=2,1,1", chips: 4},
		{name: "three chips", environ: "TPU_VISIBLE_CHIPS=0,1,2", chips: 4, fails: "a process has 1, 2, 4 or 8 chips"},
		{name: "one twice", environ: "TPU_VISIBLE_CHIPS=0,0", fails: "must be different numbers"},
		{name: "none", environ: "TPU_VISIBLE_CHIPS=all", fails: `is "all", but must be`},
		{name: "chips unknown", environ: slice, fails: "set TPU_VISIBLE_CHIPS to them"},
	} {
		got, err := tpuEnvironment(strings.Fields(c.environ), c.chips, c.together)
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, want %q", c.name, err, c.fails)
		}
		want := map[string]string{}
		for _, v := range strings.Fields(c.want) {
			name, value, _ := strings.Cut(v, "=")
			want[name] = value
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
}

// Workers have devices of their own.
func TestDevicesOfWorkers(t *testing.T) {
	const tpu, gpu = "TPU_VISIBLE_CHIPS", "CUDA_VISIBLE_DEVICES"
	for _, c := range []struct {
		backend, visible, accelerator string
		workers, tp, dp               int
		want, fails                   string
	}{
		{backend: "xla:cpu", workers: 4, tp: 1, dp: 1},
		{backend: "xla:tpu", workers: 4, tp: 1, dp: 1, want: "0 1 2 3"},
		{backend: "xla:tpu", workers: 2, tp: 2, dp: 2, want: "0,1,2,3 4,5,6,7"},
		{backend: "xla:tpu", workers: 2, tp: 2, dp: 1, visible: "4,5,6,7", want: "4,5 6,7"},
		{backend: "xla:tpu", workers: 2, tp: 2, dp: 2, accelerator: "tpu7x-8", visible: "0,1,2,3", want: "0,1 2,3"},
		{backend: "xla:/opt/libtpu.so", workers: 2, tp: 1, dp: 1, want: "0 1"},
		{backend: "xla:tpu", workers: 3, tp: 2, dp: 1, visible: "0,1,2,3", fails: "this host has 4 in all"},
		{backend: "xla:tpu", workers: 1, tp: 3, dp: 1, visible: "0,1,2,3", fails: "need 3 chips each, of 1, 2, 4 or 8"},
		{backend: "xla:tpu", workers: 1, tp: 1, dp: 1, visible: "a", fails: "TPU_VISIBLE_CHIPS is"},
		{backend: "xla:cuda", workers: 8, tp: 1, dp: 1, visible: "0,1,2,3,4,5,6,7", want: "0 1 2 3 4 5 6 7"},
		{backend: "xla:cuda", workers: 2, tp: 1, dp: 2, visible: "6,GPU-1f,2,3", want: "6,GPU-1f 2,3"},
		{backend: "xla:cuda", workers: 2, tp: 2, dp: 1, want: "0,1 2,3"}, // no device file here, as on WSL
		{backend: "xla:cuda", workers: 3, tp: 2, dp: 1, visible: "0,1,2,3", fails: "need 6 GPUs, and this host has 4"},
	} {
		variable := map[bool]string{false: tpu, true: gpu}[c.backend == "xla:cuda"]
		t.Setenv(tpu, "")
		t.Setenv(gpu, "")
		t.Setenv(variable, c.visible)
		t.Setenv("TPU_ACCELERATOR_TYPE", c.accelerator)
		e := spec.Engine{Backend: c.backend, TP: c.tp, DP: c.dp}
		got, err := DevicesOfWorkers(&e, c.workers)
		want := c.want
		if want != "" {
			want = variable + "=" + strings.ReplaceAll(want, " ", " "+variable+"=")
		}
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) ||
			strings.Join(got, " ") != want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}
