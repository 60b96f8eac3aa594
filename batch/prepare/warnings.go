package prepare

import (
	"context"
	"fmt"
	"slices"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/data/parameter"
)

// maxNamed bounds the names in warnings about the input.
const maxNamed = 8

// WarnAboutInput warns once about an input that was perhaps not meant so: of raw text, without rows, or with columns
// that are only passed through and have nearly the names of parameters, or names of parameters of other engines.
func WarnAboutInput(ctx context.Context, p *process.Process, opened *Opened) {
	warnAboutRawPrompts(ctx, p, opened)
	warnAboutEqualPrompts(ctx, p, opened)
	w, input := p.Messages, opened.Reader
	if input.NumRows() == 0 {
		fmt.Fprintln(w, "warning: the input has no rows")
	}
	said := 0
	if opened.Job.Encodes() { // whose rows have few parameters
		return
	}
	for _, column := range slices.Sorted(slices.Values(input.Schema().Columns())) {
		hint := nearest(column)
		if hint == "" {
			continue
		}
		if said++; said > maxNamed {
			fmt.Fprintln(w, "warning: more columns have names of parameters, or near to them, and are passed through")
			return
		}
		fmt.Fprintf(w, "warning: column %q is not a parameter of Quire: %s It is passed through\n", column, hint)
	}
}

// nearest reports which parameter a column was perhaps meant for, "" if it is likely data.
func nearest(column string) string {
	if foreign, ok := parameter.LookupForeign(column); ok && foreign.Instead != "" {
		return fmt.Sprintf("it is one of %s, and Quire's name is %q.", foreign.Engines, foreign.Instead)
	} else if ok {
		return fmt.Sprintf("it is one of %s, which Quire does not have.", foreign.Engines)
	}
	if near, ok := parameter.Near(column); ok {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}
