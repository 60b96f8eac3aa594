package outcome

import (
	"fmt"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/internal/visible"
)

// ErrorExamples is how many of the rows with errors are named in the final report.
const ErrorExamples = 5

// RowError names a row and what is wrong with it; the row's own errors do both.
func RowError(row *promptset.Row, failure error) error {
	if row.Err != nil && row.Err.Error() == failure.Error() {
		return failure
	}
	return row.Wrong(fmt.Errorf("(id %s) %w", visible.Cut(row.ID), failure))
}
