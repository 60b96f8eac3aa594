package cpukernel

/*
#include "crowd.h"
*/
import "C"

import "time"

// crowd is a q_crowd.
type crowd struct{ of C.q_crowd }

func newCrowd(most int) *crowd {
	c := &crowd{}
	c.of.most = C.int64_t(most)
	return c
}

// step counts a step, and returns how many threads the next one should use.
func (c *crowd) step(kind int, took, lost time.Duration) int {
	return int(C.q_crowd_step(&c.of, C.int(kind), C.int64_t(took), C.int64_t(lost)))
}
