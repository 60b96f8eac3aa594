package prepare

import (
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/internal/visible"
)

// parentElsewhereError reports that a row continues a row that another process may generate.
type parentElsewhereError struct {
	row    *promptset.Row
	parent int64
	unit   string
}

func (e *parentElsewhereError) Error() string { return e.Unwrap().Error() }

// Unwrap returns the error in words.
func (e *parentElsewhereError) Unwrap() error {
	return e.row.Wrong(setting.Errorf("(id %s) its parent %s, row %d of the job, is in another %s, and processes do "+
		"not wait for one another: run this job with one process, or give `part-rows` so that each row is in the part "+
		"of its parent", visible.Quoted(e.row.ID), visible.Quoted(e.row.Parent.ID), e.parent, e.unit))
}
