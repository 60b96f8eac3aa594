package model

import (
	"github.com/quire/quire/engine/schedule"
)

// call is one Run.
type call struct {
	*Device
	in         *schedule.Input
	out        *schedule.Output
	entries    map[int]int // admitted now: entry to row
	prompts    []int
	drew       bool
	placed     int
	openedHere int
}

func (c *call) freeSlots() (list []int) {
	for row := range c.MaxSeqs {
		if !c.rows[row].used {
			list = append(list, row)
		}
	}
	return list
}

// fillAt is at how many free slots waiting sequences get them.
func (c *call) fillAt() int {
	waiting := 0
	for i := range c.in.Waiting {
		if c.out.Placed[i] < 0 {
			waiting++
		}
	}
	return min(max(1, c.MaxSeqs/16), max(1, waiting))
}

func (c *call) ready(source, held int) bool {
	return source < 0 || c.rows[source].used && c.rows[source].length >= held
}

func (c *call) need(maxPages, held int) int { return maxPages - held/c.PageSize }

// short is how many pages are missing for the next step of all that decode.
func (c *call) short() int {
	n := 0
	for _, r := range c.rows[:c.Slots] {
		if r.used && r.length >= r.promptLen && r.length%c.PageSize == 0 && c.pagesOf(r.length) >= r.maxPages {
			n++
		}
	}
	return max(0, n-c.Unreserved())
}

// column ends a step.
func (c *call) column() {
	free := int32(c.Free())
	c.out.FreePages[c.out.Columns], c.out.MinFree = free, min(c.out.MinFree, free)
	if c.drew {
		c.out.Columns++
	}
	c.drew = false
}
