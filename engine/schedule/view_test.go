package schedule_test

import (
	"fmt"

	"github.com/quire/quire/engine/schedule"
)

// checkView says what is wrong with what a scheduler shows of its rows: each row is there once, in order and of one
// kind, and no request has more completions admitted than it asks for.
func checkView(v schedule.View, s schedule.Sizes, requests int) error {
	last := -1
	for _, r := range v.Rows {
		switch isSlot := r.Row < s.Slots; {
		case r.Row <= last || r.Row >= s.Rows():
			return fmt.Errorf("row %d behind row %d, of %d", r.Row, last, s.Rows())
		case (r.Sequence != nil) && !isSlot || r.Tokens > 0 && isSlot:
			return fmt.Errorf("row %+v is of another kind", r)
		case r.Pinned != (r.Row >= s.FirstContext()):
			return fmt.Errorf("row %+v of a context or none", r)
		case r.Done > r.Tokens:
			return fmt.Errorf("row %+v ran more than it has", r)
		case r.Failing:
			return fmt.Errorf("row %+v is of a call that failed, and none did", r)
		}
		last = r.Row
	}
	for _, w := range v.Waiting {
		if w.Admitted >= w.Request.N || w.Source >= s.Rows() {
			return fmt.Errorf("%+v waits", w)
		}
	}
	if len(v.Waiting) > requests || v.FreePages > s.Pages {
		return fmt.Errorf("%d wait, %d pages are free", len(v.Waiting), v.FreePages)
	}
	return nil
}
