package environ

import (
	"strings"
	"testing"

	"github.com/quire/quire/batch/jobstate"
)

func TestFindShard(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"", "nothing says which shard this is"},
		{"JOB_COMPLETION_INDEX=3 QUIRE_SHARD_COUNT=8", "3/8"},
		{"JOB_COMPLETION_INDEX=0 QUIRE_SHARD_COUNT=1", "0/1"},
		{"JOB_COMPLETION_INDEX=3", "nothing says of how many: set QUIRE_SHARD_COUNT"},
		{"JOB_COMPLETION_INDEX=8 QUIRE_SHARD_COUNT=8", "which is out of range"},
		{"JOB_COMPLETION_INDEX=x QUIRE_SHARD_COUNT=8", `JOB_COMPLETION_INDEX is "x", but must be a number`},
		{"QUIRE_SHARD_COUNT=8", "nothing says which shard this is"},
		{"SLURM_PROCID=5 SLURM_NTASKS=6 SLURM_STEP_ID=0", "5/6"},
		{"SLURM_PROCID=1 SLURM_NTASKS=6 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=1", "1/2"},
		{"SLURM_PROCID=0 SLURM_NTASKS=6", "start it with srun"},
		{"SLURM_PROCID=0 SLURM_NTASKS=1", "0/1"},
		{
			"SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=3 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_STEP=2 " +
				"SLURM_PROCID=0 SLURM_NTASKS=1", "2/4"},
		{"SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_COUNT=4 SLURM_PROCID=1 SLURM_NTASKS=3 SLURM_STEP_ID=0", "7/12"},
		{"SLURM_ARRAY_TASK_ID=9 SLURM_ARRAY_TASK_COUNT=4", "an array with gaps"},
		{"SLURM_ARRAY_TASK_ID=9", "SLURM_ARRAY_TASK_COUNT is not"},
		{"TPU_WORKER_ID=2 TPU_WORKER_HOSTNAMES=a,b,c,d", "2/4"},
		{"TPU_WORKER_ID=2 TPU_WORKER_HOSTNAMES=a,b,c,d JOB_COMPLETION_INDEX=2", "2/4"},
		{"TPU_WORKER_ID=2 TPU_WORKER_HOSTNAMES=a,b,c,d JOB_COMPLETION_INDEX=1",
			"contradicts itself: JOB_COMPLETION_INDEX says number 1; TPU_WORKER_ID, TPU_WORKER_HOSTNAMES say 2/4"},
		{"TPU_WORKER_ID=0 JOB_COMPLETION_INDEX=0 QUIRE_SHARD_COUNT=2", "0/2"},
		{"TPU_WORKER_ID=0 TPU_WORKER_HOSTNAMES=localhost", "0/1"},
		{"TPU_WORKER_ID=0 TPU_WORKER_HOSTNAMES=localhost JOB_COMPLETION_INDEX=3 QUIRE_SHARD_COUNT=8", "3/8"},
		{"TPU_WORKER_ID=0 TPU_WORKER_HOSTNAMES=localhost QUIRE_SHARD_COUNT=8", "contradicts itself"},
		{"SLURM_PROCID=0 SLURM_NTASKS=1 RANK=1 WORLD_SIZE=2", "1/2"},
		{"RANK=3 WORLD_SIZE=4", "3/4"},
		{"RANK=3 WORLD_SIZE=4 QUIRE_SHARD_COUNT=8",
			"contradicts itself: QUIRE_SHARD_COUNT says 8 in all; RANK, WORLD_SIZE say 3/4"},
		{"RANK=3 WORLD_SIZE=4 SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_STEP_ID=0", "contradicts itself"},
		{"RANK=4 WORLD_SIZE=4", "which is out of range"},
		{"RANK=1", "nothing says which shard this is"},
		{"RANK=1 WORLD_SIZE=100000", "which is out of range"},
	} {
		env := map[string]string{}
		for _, pair := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
		shard, err := Shard(func(name string) string { return env[name] })
		got := shard.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %s; want %s", c.env, got, c.want)
		}
	}
}

// FuzzFindShard takes any values of the variables.
func FuzzFindShard(f *testing.F) {
	f.Add("1", "8", "3", "4", "a,b")
	f.Add("-1", "99999999999999999999", "0x3", " 4 ", ",,")
	f.Fuzz(func(t *testing.T, a, b, c, d, hosts string) {
		all := []string{a, b, c, d}
		i := 0
		shard, err := Shard(func(name string) string {
			if name == "TPU_WORKER_HOSTNAMES" {
				return hosts
			}
			i++
			return all[i%len(all)]
		})
		if err == nil && (shard.Index < 0 || shard.Index >= shard.Count || shard.Count > jobstate.MaxShards) {
			t.Fatal(shard)
		}
	})
}
