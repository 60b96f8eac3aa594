package engine_test

import (
	"fmt"
	"testing"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/xla"
)

func firstDevices(n int) []int {
	devices := make([]int, n)
	for i := range devices {
		devices[i] = i
	}
	return devices
}

// Greedy tokens of 2, 4 and 8 devices together are transformers', as those of one device, for every family: also where heads, MLP and
// vocabulary do not divide.
func TestGreedyOfDevicesTogether(t *testing.T) {
	for _, n := range []int{2, 4, 8} {
		for _, family := range testenv.Families(t) {
			for _, kernels := range []string{xla.KernelsAuto, xla.KernelsOff} {
				t.Run(fmt.Sprintf("%s on %d, kernels %s", family, n, kernels), func(t *testing.T) {
					if family != "smollm2-like" || n == 8 || n == 2 && kernels == xla.KernelsAuto {
						testenv.Slow(t)
					}
					greedyEqualsTransformers(t, family, testenv.Group(t, kernels, firstDevices(n)...))
				})
			}
		}
	}
}

