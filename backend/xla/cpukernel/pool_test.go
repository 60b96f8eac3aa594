package cpukernel_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/quire/quire/backend/xla/cpukernel"
	"pgregory.net/rapid"
)

// Each task of a job runs once, and none of the second stage before the first is through, whatever threads come.
func TestPoolRunsEachTaskOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threads := rapid.IntRange(1, 9).Draw(t, "threads")
		refused, late := rapid.IntRange(0, 3).Draw(t, "refused"), rapid.IntRange(0, 3).Draw(t, "late")
		firstTasks, tasks := rapid.IntRange(0, 40).Draw(t, "first tasks"), rapid.IntRange(0, 100).Draw(t, "tasks")
		if wrong := cpukernel.CheckPool(threads, refused, late, firstTasks, tasks); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

// Jobs of several threads at once, as of several devices, do not get each other's tasks.
func TestPoolRunsJobsAtOnce(t *testing.T) {
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for n := range 100 {
				if wrong := cpukernel.CheckPool(2+i, n%3, n%2, n%5, n); wrong != "" {
					t.Errorf("job %d of thread %d: %s", n, i, wrong)
				}
			}
		})
	}
	group.Wait()
}

// A job of two threads takes longer than its tasks by how long the threads wait for each other.
func BenchmarkPool(b *testing.B) {
	for _, work := range []int{0, 1000, 5000} {
		b.Run(fmt.Sprintf("work=%dns", work), func(b *testing.B) {
			cpukernel.BusyPool(2, b.N, work)
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)-float64(work), "beyond-ns/op")
		})
	}
}
