package load

import (
	"os"
	"strings"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/setting"
)

// DevicesOfWorkers shares the devices of this host out to so many processes with models of their own. It returns the
// setting of the environment, NAME=VALUE, that gives each process its devices. It returns nil for platforms whose
// processes share a device, such as the CPU.
func DevicesOfWorkers(e *spec.Engine, workers int) ([]string, error) {
	traits := backend.Named(e.Backend)
	if traits.Visible == "" || workers < 1 {
		return nil, nil
	}
	share := gpusOfWorkers
	if traits.HasChips {
		share = chipsOfWorkers
	}
	settings, err := share(e, workers)
	for i, list := range settings {
		settings[i] = traits.Visible + "=" + list
	}
	return settings, err
}

// gpusOfWorkers returns the GPUs for each of so many processes: numbers, or whatever names the variable has.
func gpusOfWorkers(e *spec.Engine, workers int) ([]string, error) {
	each := e.Devices()
	gpus := strings.FieldsFunc(os.Getenv(backend.Named(e.Backend).Visible), func(r rune) bool { return r == ',' })
	if len(gpus) == 0 {
		number := setup.GPUs()
		if number == 0 { // WSL: the driver knows
			number = workers * each
		}
		gpus = strings.Split(chipList(0, number), ",")
	}
	if len(gpus) < workers*each {
		return nil, setting.Errorf("`workers` %d with `tp` %d and `dp` %d need %d GPUs, and this host has %d", workers,
			e.TP, e.DP, workers*each, len(gpus))
	}
	lists := make([]string, workers)
	for i := range lists {
		lists[i] = strings.Join(gpus[i*each:(i+1)*each], ",")
	}
	return lists, nil
}
