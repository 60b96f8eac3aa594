package load

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/setting"
)

// visibleChips is the variable that gives libtpu the chips of the host that a process has.
var visibleChips = backend.For(backend.TPU).Visible

// Other variables of libtpu.
const (
	workerHostnames = "TPU_WORKER_HOSTNAMES"
	megascale       = "MEGASCALE_" // prefix of the variables of several slices
)

// chipBounds are the grids of chips that one process of a host can have.
var chipBounds = map[int]string{1: "1,1,1", 2: "1,2,1", 4: "2,2,1", 8: "2,4,1"}

// processPort is the port of libtpu in the process that has chip 0, alone on its host; the one with chip i has the i-th
// from there. Several processes of a host must differ.
const processPort = 8480

// tpuEnvironment returns what libtpu is to find in the environment of a process, alongside what is there; an empty
// value removes a variable. chips is how many the host has, 0 if that is not known. Where all processes of a slice run
// one model, libtpu's own view of the slice stands. Otherwise the process is alone with the chips that it has, and
// waits for no other one:
//
//   - with TPU_VISIBLE_CHIPS, with those;
//   - on a host of a slice of several hosts, with all of this host.
func tpuEnvironment(environ []string, chips int, together bool) (map[string]string, error) {
	own := map[string]string{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		own[name] = value
	}
	set := map[string]string{}
	for name := range own { // a model is on one slice, and libtpu would wait for the others
		if strings.HasPrefix(name, megascale) {
			set[name] = ""
		}
	}
	visible := own[visibleChips]
	if visible == "" {
		visible = own["TPU_VISIBLE_DEVICES"] // its name before
	}
	ofSlice := len(hostnames(own[workerHostnames])) > 1
	if together || visible == "" && !ofSlice {
		return set, nil
	}
	if visible == "" {
		if chips == 0 {
			return nil, fmt.Errorf("%s has several hosts, and this process is alone on its host, whose chips were "+
				"not found: set %s to them, such as 0,1,2,3", workerHostnames, visibleChips)
		}
		visible = chipList(0, chips)
	}
	mine, err := parseChips(visible)
	if err != nil {
		return nil, err
	}
	bounds := chipBounds[len(mine)]
	if bounds == "" {
		return nil, fmt.Errorf("%s is %s: a process has 1, 2, 4 or 8 chips, and not %d", visibleChips, visible,
			len(mine))
	}
	port := strconv.Itoa(processPort + mine[0])
	alone := map[string]string{
		visibleChips: visible, "TPU_CHIPS_PER_PROCESS_BOUNDS": bounds, "TPU_PROCESS_BOUNDS": "1,1,1",
		"TPU_PROCESS_ADDRESSES": "localhost:" + port, "TPU_PROCESS_PORT": port, "CLOUD_TPU_TASK_ID": "0",
		workerHostnames: "localhost", "TPU_WORKER_ID": "0",
		// Their names before, which describe the whole slice on GKE.
		"TPU_CHIPS_PER_HOST_BOUNDS": "", "TPU_HOST_BOUNDS": "", "TPU_VISIBLE_DEVICES": "",
	}
	if len(mine) != chips { // others have the rest
		alone["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"
	}
	// Outside of a slice the user sets the bounds, and knows how these processes are arranged.
	if !ofSlice && own["TPU_PROCESS_BOUNDS"] != "" {
		return set, nil
	}
	for name, value := range alone {
		if before, there := own[name]; there && before == value || !there && value == "" {
			continue
		}
		set[name] = value
	}
	return set, nil
}

// hostnames splits TPU_WORKER_HOSTNAMES.
func hostnames(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func parseChips(text string) ([]int, error) {
	var chips []int
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 0 || n > 255 || slices.Contains(chips, n) {
			return nil, fmt.Errorf("%s is %q, but must be different numbers of chips, such as 0,1", visibleChips,
				text)
		}
		chips = append(chips, n)
	}
	return chips, nil
}

func chipList(from, n int) string {
	var chips []string
	for i := range n {
		chips = append(chips, strconv.Itoa(from+i))
	}
	return strings.Join(chips, ",")
}

// devicesPerChip is 2 for the kinds of TPU whose chips are two devices.
func devicesPerChip(accelerator string) int {
	for _, two := range []string{"v2", "v3", "tpu7", "v7"} {
		if strings.HasPrefix(accelerator, two) {
			return 2
		}
	}
	return 1
}

// chipsOfWorkers returns the chips for each of so many processes with models of their own.
func chipsOfWorkers(e *spec.Engine, workers int) ([]string, error) {
	per := devicesPerChip(os.Getenv("TPU_ACCELERATOR_TYPE"))
	each := (e.Devices() + per - 1) / per
	chips, err := chipsHere(os.Getenv, setup.TPUChips())
	if err != nil {
		return nil, err
	}
	if chips == nil { // a process without these variables knows its chips
		chips, _ = parseChips(chipList(0, workers*each))
	}
	if len(chips) < workers*each || chipBounds[each] == "" {
		return nil, setting.Errorf("`workers` %d with `tp` %d and `dp` %d need %d chips each, of 1, 2, 4 or 8, and "+
			"this host has %d in all", workers, e.TP, e.DP, each, len(chips))
	}
	lists := make([]string, workers)
	for i := range lists {
		var mine []string
		for _, chip := range chips[i*each : (i+1)*each] {
			mine = append(mine, strconv.Itoa(chip))
		}
		lists[i] = strings.Join(mine, ",")
	}
	return lists, nil
}

// chipsHere are the numbers of the chips that this process may share out; nil if nothing gives them.
func chipsHere(getenv func(string) string, found int) ([]int, error) {
	if visible := getenv(visibleChips); visible != "" {
		return parseChips(visible)
	}
	if found == 0 {
		return nil, nil
	}
	return parseChips(chipList(0, found))
}

// hostsBefore is TPU_WORKER_HOSTNAMES as it was before isolate; nil before.
var hostsBefore atomic.Pointer[string]

// isolate prepares the environment of this process for libtpu, which reads it when it is loaded.
func isolate(e *spec.Engine, together bool) error {
	if !backend.Named(e.Backend).HasChips {
		return nil
	}
	hosts := os.Getenv(workerHostnames)
	set, err := tpuEnvironment(os.Environ(), setup.TPUChips(), together)
	if err != nil {
		return err
	}
	hostsBefore.CompareAndSwap(nil, &hosts)
	for name, value := range set {
		if value == "" {
			err = os.Unsetenv(name)
		} else {
			err = os.Setenv(name, value)
		}
		if err != nil {
			return err
		}
	}
	lockMemory()
	return nil
}

// sliceHosts returns the hosts of this host's slice.
func sliceHosts() []string {
	if before := hostsBefore.Load(); before != nil {
		return hostnames(*before)
	}
	return hostnames(os.Getenv(workerHostnames))
}
