package cpukernel_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quire/quire/backend/xla/cpukernel"
	"pgregory.net/rapid"
)

// machine is a model of processors that a job shares with others, which are always busy.
type machine struct {
	processors, others int
	work               [3]time.Duration // of a step of each kind, on one thread
	random             *rand.Rand
}

// lost is what part of a step is lost. Where there are more threads than processors, one of several threads keeps the
// others waiting, and a thread that is alone has only its turns.
func (m *machine) lost(threads int) float64 {
	switch over := threads + m.others - m.processors; {
	case over <= 0:
		return 0.04
	case threads == 1:
		return 1 - float64(m.processors)/float64(m.others+1)
	default:
		return 0.8
	}
}

// best is the least part of a step's work that a step takes.
func (m *machine) best() float64 {
	best := math.Inf(1)
	for threads := 1; threads <= m.processors; threads++ {
		best = min(best, 1/float64(threads)/(1-m.lost(threads)))
	}
	return best
}

// step is how long a step of a kind takes on threads, and how much of that is lost.
func (m *machine) step(kind, threads int) (took, lost time.Duration) {
	part := 1 - (1-m.lost(threads))*(0.9+0.1*m.random.Float64())
	alone := float64(m.work[kind]) / float64(threads) * (0.95 + 0.1*m.random.Float64())
	return time.Duration(alone / (1 - part)), time.Duration(alone / (1 - part) * part)
}

// run has a crowd decide for that long. It returns the mean of the threads, and what part of the steps' work they took.
func (m *machine) run(c *cpukernel.Crowd, threads *int, long time.Duration) (mean, part float64) {
	var sum, all, work time.Duration
	for all < long {
		kind := 1
		if m.random.IntN(4) == 0 {
			kind = 2
		}
		took, lost := m.step(kind, *threads)
		all += took
		sum += took * time.Duration(*threads)
		work += m.work[kind]
		*threads = c.Step(kind, took, lost)
	}
	return float64(sum) / float64(all), float64(all) / float64(work)
}

func drawMachine(t *rapid.T) *machine {
	work := time.Duration(rapid.IntRange(5, 400).Draw(t, "ms")) * time.Millisecond
	processors := rapid.IntRange(2, 16).Draw(t, "processors")
	return &machine{processors: processors, work: [3]time.Duration{0, work, 3 * work},
		random: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 26))}
}

// Where nobody else runs, all threads are used all the time.
func TestQuietMachineUsesAllThreads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		threads := m.processors
		if mean, _ := m.run(cpukernel.NewCrowd(m.processors), &threads, time.Minute); mean != float64(m.processors) {
			t.Fatalf("%g threads of %d", mean, m.processors)
		}
	})
}

// Where others run there are about as many threads as steps take the least time with; and all of them again some
// time after the others end.
func TestCrowdedMachineUsesFewerThreads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		m.others = rapid.IntRange(1, m.processors+2).Draw(t, "others")
		c, threads := cpukernel.NewCrowd(m.processors), m.processors
		settle := max(3*time.Minute, 1000*m.work[1]) // trials of long steps are far apart
		m.run(c, &threads, settle)
		mean, part := m.run(c, &threads, time.Minute)
		if best := m.best(); part > 1.4*best {
			t.Fatalf("%g threads beside %d others on %d processors: steps take %g of their work, and may take %g", mean,
				m.others, m.processors, part, best)
		}
		m.others = 0
		m.run(c, &threads, settle)
		if mean, _ := m.run(c, &threads, time.Minute); mean != float64(m.processors) {
			t.Fatalf("%g threads of %d after the others ended", mean, m.processors)
		}
	})
}

// Time that is lost on any number of threads does not take threads away, and trials take little of the time.
func TestFewerThreadsThatDoNotHelp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		c, threads := cpukernel.NewCrowd(m.processors), m.processors
		var all, fewer time.Duration
		for all < time.Minute {
			took, _ := m.step(1, threads)
			all += took
			if threads < m.processors {
				fewer += took
			}
			threads = c.Step(1, took, took/2)
		}
		if fewer > all/8 || fewer == 0 {
			t.Fatalf("%s of %s with fewer threads", fewer, all)
		}
	})
}
