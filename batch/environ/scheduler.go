// Package environ finds in the environment variables of schedulers which shard of a job, or which of several hosts,
// this process is.
package environ

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/data/setting"
)

// countVariable is the variable with the number of shards, for schedulers that do not set it.
const countVariable = "QUIRE_SHARD_COUNT"

// claim is the shard that some variables claim for this process.
type claim struct {
	names        []string // of the variables
	index, count int      // count 0 is not known
}

func (c claim) String() string {
	if c.count == 0 {
		return fmt.Sprintf("%s says number %d", strings.Join(c.names, ", "), c.index)
	}
	return fmt.Sprintf("%s say %d/%d", strings.Join(c.names, ", "), c.index, c.count)
}

// Shard takes the shard from the variables that schedulers set. All of them must agree.
func Shard(getenv func(string) string) (jobstate.Shard, error) {
	e := &variables{getenv: getenv, flags: setting.Textf("`shard` I/N")}
	given, _ := e.number(countVariable)
	e.kubernetes()
	e.slurm()
	e.tpu()
	e.pair("RANK", "WORLD_SIZE") // torchrun and its like
	if e.err != nil {
		return jobstate.Shard{}, e.err
	}
	if len(e.claims) == 0 {
		return jobstate.Shard{},
			setting.Errorf(
				"nothing says which shard this is: neither JOB_COMPLETION_INDEX (Kubernetes) nor SLURM_PROCID, " +
					"SLURM_ARRAY_TASK_ID " +
					"nor TPU_WORKER_ID nor RANK is set; give `shard` I/N")
	}
	e.dropLone()
	count := given
	for _, c := range e.claims {
		if count == 0 {
			count = c.count
		}
	}
	first := e.claims[0]
	for _, c := range e.claims {
		if c.index != first.index || c.count != 0 && c.count != count {
			claims := []string{}
			if given != 0 {
				claims = append(claims, fmt.Sprintf("%s says %d in all", countVariable, given))
			}
			for _, c := range e.claims {
				claims = append(claims, c.String())
			}
			return jobstate.Shard{}, setting.Errorf("the environment contradicts itself: %s; give `shard` I/N",
				strings.Join(claims, "; "))
		}
	}
	if count == 0 {
		return jobstate.Shard{},
			setting.Errorf(
				"%s, and nothing says of how many: set %s to the number of shards (completions of the Job), or give "+
					"`shard` I/N", first, countVariable)
	}
	if first.index >= count || count > jobstate.MaxShards {
		return jobstate.Shard{}, fmt.Errorf("%s, of %d shards, which is out of range", first, count)
	}
	return jobstate.Shard{Index: first.index, Count: count}, nil
}

// variables gathers claims.
type variables struct {
	getenv func(string) string
	claims []claim
	err    error        // the first
	flags  setting.Text // what may be given in place of the variables
}

// number reads a variable; ok reports whether it is set.
func (e *variables) number(name string) (n int, ok bool) {
	text := strings.TrimSpace(e.getenv(name))
	if text == "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1<<30 {
		e.fail(fmt.Errorf("%s is %q, but must be a number", name, text))
		return 0, false
	}
	return n, true
}

func (e *variables) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *variables) add(index, count int, names ...string) {
	e.claims = append(e.claims, claim{names, index, count})
}

// pair takes variables that have the number and the count.
func (e *variables) pair(index, count string) {
	i, ok := e.number(index)
	n, counted := e.number(count)
	switch {
	case ok && counted:
		e.add(i, n, index, count)
	case ok && index == "TPU_WORKER_ID":
		e.add(i, 0, index)
	}
}

// kubernetes: an Indexed Job, which does not give its pods their number.
func (e *variables) kubernetes() {
	if i, ok := e.number("JOB_COMPLETION_INDEX"); ok {
		e.add(i, 0, "JOB_COMPLETION_INDEX")
	}
}

// slurm: tasks of a step, of an array, or of both.
func (e *variables) slurm() {
	index, count := 0, 1
	var names []string
	if id, ok := e.number("SLURM_ARRAY_TASK_ID"); ok {
		n, counted := e.number("SLURM_ARRAY_TASK_COUNT")
		first, _ := e.number("SLURM_ARRAY_TASK_MIN")
		step, _ := e.number("SLURM_ARRAY_TASK_STEP")
		step = max(step, 1)
		switch {
		case !counted:
			e.fail(fmt.Errorf("SLURM_ARRAY_TASK_ID is set, and SLURM_ARRAY_TASK_COUNT is not; give %s", e.flags))
			return
		case id < first || (id-first)%step != 0 || (id-first)/step >= n:
			e.fail(
				fmt.Errorf(
					"SLURM_ARRAY_TASK_ID is %d, which is not one of %d from %d on, %d apart: give %s for an array "+
						"with gaps", id, n, first, step, e.flags))
			return
		}
		index, count = (id-first)/step, n
		names = append(names, "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT")
	}
	tasks := "SLURM_STEP_NUM_TASKS"
	if e.getenv(tasks) == "" {
		tasks = "SLURM_NTASKS"
	}
	if n, ok := e.number(tasks); ok && (n > 1 || len(names) == 0) {
		i, ranked := e.number("SLURM_PROCID")
		if n > 1 && (!ranked || e.getenv("SLURM_STEP_ID") == "") { // the script itself is task 0 of as many
			e.fail(
				fmt.Errorf(
					"%s is %d, and this is the batch script and none of the tasks: start it with srun, or give %s",
					tasks, n, e.flags))
			return
		}
		index, count = index*n+i, count*n
		names = append(names, "SLURM_PROCID", tasks)
	}
	if names != nil {
		e.add(index, count, names...)
	}
}

// tpu: the hosts of a slice of TPUs on GKE.
func (e *variables) tpu() {
	i, ok := e.number("TPU_WORKER_ID")
	if !ok {
		return
	}
	hosts := slices.DeleteFunc(strings.Split(e.getenv("TPU_WORKER_HOSTNAMES"), ","),
		func(host string) bool { return strings.TrimSpace(host) == "" })
	e.add(i, len(hosts), "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES")
}

// dropLone drops claims of a count of 1 if other claims have more: a slice of TPUs of one host claims that in any Job.
func (e *variables) dropLone() {
	if several := slices.DeleteFunc(slices.Clone(e.claims),
		func(c claim) bool { return c.count == 1 }); len(several) > 0 {
		e.claims = several
	}
}

// Hosts takes which of the processes that run one model together this is from what schedulers tell their processes:
// number, count, and where process 0 is, which is empty if it is not known.
func Hosts(getenv func(string) string) (*process.Hosts, error) {
	e := &variables{getenv: getenv, flags: setting.Textf("`num-processes` N and `process-id` I")}
	e.slurm()
	e.tpu()
	e.pair("JAX_PROCESS_ID", "JAX_NUM_PROCESSES")
	e.pair("RANK", "WORLD_SIZE")
	if e.err != nil {
		return nil, e.err
	}
	if e.dropLone(); len(e.claims) == 0 {
		return nil, fmt.Errorf("nothing says which process this is: neither TPU_WORKER_ID nor JAX_PROCESS_ID nor "+
			"SLURM_PROCID nor RANK is set; give %s", e.flags)
	}
	first := e.claims[0]
	for _, c := range e.claims {
		if c.index != first.index || c.count != first.count || c.index >= c.count {
			return nil, fmt.Errorf("the environment contradicts itself: %s; %s; give %s", first, c, e.flags)
		}
	}
	return &process.Hosts{Processes: first.count, ID: first.index, CoordinatorAddress: coordinatorOf(getenv)}, nil
}

// coordinatorPort is the port of process 0 if only its host is known: the port of jax.distributed on TPUs.
const coordinatorPort = "8476"

// coordinatorOf returns the address of process 0 that the environment gives; "" for none.
func coordinatorOf(getenv func(string) string) string {
	if address := getenv("JAX_COORDINATOR_ADDRESS"); address != "" {
		return address
	}
	if host, _, _ := strings.Cut(getenv("TPU_WORKER_HOSTNAMES"), ","); strings.TrimSpace(host) != "" {
		return net.JoinHostPort(strings.TrimSpace(host), coordinatorPort)
	}
	if host := getenv("MASTER_ADDR"); host != "" {
		return net.JoinHostPort(host, cmp.Or(getenv("MASTER_PORT"), coordinatorPort))
	}
	return ""
}
