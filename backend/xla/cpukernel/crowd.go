package cpukernel

/*
#include "crowd.h"
*/
import "C"

import "time"

// Crowd is a q_crowd, which decides how many threads a step uses on a processor that others use too.
type Crowd struct{ of C.q_crowd }

// NewCrowd returns a crowd that uses at most so many threads.
func NewCrowd(most int) *Crowd {
	c := &Crowd{}
	c.of.most = C.int64_t(most)
	return c
}

// Step counts a step of a kind, which took so long and lost so much of it. It returns how many threads the next one
// should use.
func (c *Crowd) Step(kind int, took, lost time.Duration) int {
	return int(C.q_crowd_step(&c.of, C.int(kind), C.int64_t(took), C.int64_t(lost)))
}
