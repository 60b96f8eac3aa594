package jobflags

import (
	"strings"
	"testing"

	"github.com/quire/quire/batch/process"
)

func TestFindProcess(t *testing.T) {
	flags := func(processes string, id int, coordinator string) Hosts {
		return Hosts{CountText: processes, Hosts: process.Hosts{ID: id, CoordinatorAddress: coordinator}}
	}
	tpu := map[string]string{"TPU_WORKER_ID": "2", "TPU_WORKER_HOSTNAMES": "w0.job,w1.job,w2.job,w3.job"}
	for _, c := range []struct {
		flags       Hosts
		env         map[string]string
		count, id   int
		coordinator string
		fails       string
	}{
		{flags: flags("4", 1, "h:1"), count: 4, id: 1, coordinator: "h:1"},
		{flags: flags("1", -1, ""), count: 1, id: -1},
		{flags: flags("auto", -1, ""), env: tpu, count: 4, id: 2, coordinator: "w0.job:8476"},
		{flags: flags("auto", -1, "h:1"), env: tpu, count: 4, id: 2,
			coordinator: "h:1"},
		{flags: flags("auto", -1, ""),
			env: map[string]string{"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}, count: 1, id: 0},
		{flags: flags("auto", -1, ""), env: map[string]string{"JAX_PROCESS_ID": "1",
			"JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "c:9"}, count: 2, id: 1, coordinator: "c:9"},
		{flags: flags("auto", -1, ""), env: map[string]string{"RANK": "1", "WORLD_SIZE": "2",
			"MASTER_ADDR": "m", "MASTER_PORT": "29500"}, count: 2, id: 1, coordinator: "m:29500"},
		{flags: flags("auto", -1, ""), env: map[string]string{"RANK": "1", "WORLD_SIZE": "2",
			"MASTER_ADDR": "::1"}, count: 2, id: 1, coordinator: "[::1]:8476"},
		{flags: flags("auto", -1, ""), env: map[string]string{"SLURM_PROCID": "1", "SLURM_NTASKS": "2",
			"SLURM_STEP_ID": "0"}, fails: "give --coordinator-address"},
		{flags: flags("auto", -1, ""), env: map[string]string{"RANK": "1", "WORLD_SIZE": "2",
			"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "a,b"}, fails: "contradicts itself"},
		{flags: flags("auto", -1, ""), env: map[string]string{"RANK": "x", "WORLD_SIZE": "2"},
			fails: `RANK is "x"`},
		{flags: flags("auto", -1, ""), fails: "nothing says which process this is"},
		{flags: flags("auto", 1, ""), env: tpu, fails: "may not come together"},
		{flags: flags("two", 0, ""), fails: `--num-processes is "two"`},
		{flags: flags("2", 2, "h:1"), fails: "not one of 0 to 1"},
		{flags: flags("2", 0, "h"), fails: "must be HOST:PORT"},
		{flags: flags("2", 0, ":1"), fails: "must be HOST:PORT"},
	} {
		h := c.flags
		err := h.find(func(name string) string { return c.env[name] })
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%+v, %v: %v", c.flags, c.env, err)
			}
		case err != nil || h.Processes != c.count || h.ID != c.id || h.CoordinatorAddress != c.coordinator:
			t.Errorf("%+v, %v: %+v, %v", c.flags, c.env, h, err)
		default:
			if err := h.find(func(name string) string { return c.env[name] }); err != nil {
				t.Errorf("%+v, found twice: %v", c.flags, err)
			}
		}
	}
}

// Slices of TPUs each have a model, and share the rows out.
func TestSlicesAreShards(t *testing.T) {
	env := map[string]string{
		"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "a,b", "MEGASCALE_NUM_SLICES": "3", "MEGASCALE_SLICE_ID": "2",
		"JOB_COMPLETION_INDEX": "1",
	}
	getenv := func(name string) string { return env[name] }
	o := Options{Hosts: Hosts{CountText: "auto",
		Hosts: process.Hosts{ID: -1, InitializationTimeout: 1, HeartbeatTimeout: 1}}}
	if err := o.Hosts.check(getenv, false); err == nil ||
		!strings.Contains(err.Error(), "--shard auto shares the rows out to the slices") {
		t.Error(err)
	}
	if err := o.Hosts.check(getenv, true); err != nil {
		t.Fatal(err)
	}
	if shard, err := parseShard("auto", o.Hosts.shardEnvironment(getenv)); err != nil || shard.String() != "2/3" {
		t.Errorf("%s, %v", shard, err)
	}
}
