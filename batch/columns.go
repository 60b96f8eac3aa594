package batch

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset"
)

// columnsOf are the columns on request that the output has: those that are named, and those of parameters that the job
// or a column of its input, or a line of a batch file, gives.
func (s *Spec) columnsOf(input *promptset.Schema) []string {
	names := slices.Clone(s.Columns)
	for c := range promptset.Columns() {
		if c.AskedBy == nil {
			continue
		}
		gives := func(column string) bool {
			own := parameter.Sink(column)
			return own != nil && own.Name == c.Parameter
		}
		if c.AskedBy(&s.Sampling) || slices.ContainsFunc(input.Parameters(), gives) {
			names = append(names, c.Name)
		}
	}
	ordered, _ := promptset.OnRequest(names)
	return ordered
}

// maxNamed bounds the names in warnings about the input.
const maxNamed = 8

// warnOfColumns says once what of the input is only passed through, and was perhaps meant to change completions.
func warnOfColumns(w io.Writer, input *promptset.Reader) {
	warnOfNearColumns(w, input.Schema().Columns())
	warnOfMembers(w, input.PassedMembers())
}

// warnOfNearColumns names columns of the input that were probably meant to be parameters.
func warnOfNearColumns(w io.Writer, columns []string) {
	said := 0
	for _, column := range slices.Sorted(slices.Values(columns)) {
		near, ok := parameter.Near(column)
		if !ok {
			continue
		}
		if said++; said > maxNamed {
			fmt.Fprintln(w, "warning: more columns have names that are near to those of parameters")
			return
		}
		fmt.Fprintf(w, "warning: column %q is not a parameter of Quire: did you mean %q? It is passed through\n",
			column, near)
	}
}

// warnOfMembers names members of messages that no chat template gets.
func warnOfMembers(w io.Writer, members []string) {
	if len(members) == 0 {
		return
	}
	var named []string
	for _, m := range members[:min(len(members), maxNamed)] {
		named = append(named, fmt.Sprintf("%q", m))
	}
	more := ""
	if len(members) > maxNamed {
		more = " and more"
	}
	fmt.Fprintf(w, "warning: messages have members beside role and content that no chat template gets: %s%s; they are "+
		"passed through\n", strings.Join(named, ", "), more)
}
