package prepare

import (
	"fmt"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/internal/visible"
)

// parentElsewhereError reports that a row continues a row that another process may generate.
type parentElsewhereError struct {
	row    *promptset.Row
	parent int64
	unit   string
}

func (e *parentElsewhereError) Error() string {
	return e.row.Error(fmt.Sprintf("(id %s) its parent %s, row %d of the job, is in another %s, and processes do not "+
		"wait for one another: run this job with one process, or give `part-rows` so that each row is in the part of "+
		"its parent", visible.Quoted(e.row.ID), visible.Quoted(e.row.Parent.ID), e.parent, e.unit)).Error()
}
