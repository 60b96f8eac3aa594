package review

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
)

// Row is a row of the input with its completions, as an output has them.
type Row struct {
	ID          string
	Prompt      string // the prompt as readable text
	Completions []promptset.Result
}

// Failed reports whether one of the completions is an error.
func (r *Row) Failed() bool {
	return slices.ContainsFunc(r.Completions, func(c promptset.Result) bool { return c.Err != "" })
}

// Accepted reports how many of the completions with a verdict are accepted: "all", "some" or "none"; "" without any.
func (r *Row) Accepted() string {
	switch row := verdictsOf(r.Completions); {
	case row.of == 0:
		return ""
	case row.accepted == 0:
		return "none"
	case row.accepted == row.of:
		return "all"
	}
	return "some"
}

// last is the generation of the last completion.
func (r *Row) last() int { return r.Completions[len(r.Completions)-1].Generation }

// Tokens is how many tokens the longest completion has.
func (r *Row) Tokens() (most int) {
	for _, c := range r.Completions {
		most = max(most, c.CompletionTokens)
	}
	return most
}

// Rows yields the rows of an output in its order. A file that is an input is completion.ErrNoCompletions.
func Rows(ctx context.Context, out *Output) iter.Seq2[*Row, error] {
	return rows(ctx, out, (*promptset.Completion).Prompt)
}

// rows is Rows with what reads the prompts.
func rows(ctx context.Context, out *Output,
	prompt func(*promptset.Completion) string) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		var row *Row
		for c, err := range out.Completions(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			// Rows with the same id come one after the other, if equal rows are next to each other in the input.
			if row != nil && (c.ID != row.ID || c.Generation <= row.last()) {
				if !yield(row, nil) {
					return
				}
				row = nil
			}
			if row == nil {
				row = &Row{ID: c.ID, Prompt: prompt(c)}
			}
			row.Completions = append(row.Completions, c.Result)
		}
		if row != nil {
			yield(row, nil)
		}
	}
}

func partError(part folder.Part, err error) error {
	if errors.Is(err, completion.ErrNoCompletions) {
		return err
	}
	return &PartError{part.Name, err}
}

// PartError reports what is wrong with a part; Part is the output itself if that is one file.
type PartError struct {
	Part string
	Err  error
}

func (e *PartError) Error() string { return fmt.Sprintf("%s: %v", e.Part, e.Err) }
func (e *PartError) Unwrap() error { return e.Err }

// Longest returns the n rows with the longest completions, longest first. Of rows of the same length it takes the first
// ones.
func Longest(rows iter.Seq2[*Row, error], n int) ([]*Row, error) {
	var kept shortest
	index := 0
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		heap.Push(&kept, placed{row, row.Tokens(), index})
		if index++; len(kept) > n {
			heap.Pop(&kept)
		}
	}
	slices.SortFunc(kept, func(a, b placed) int { return b.compare(a) })
	longest := make([]*Row, len(kept))
	for i, p := range kept {
		longest[i] = p.row
	}
	return longest, nil
}

// placed is a row with its length and its place in the output.
type placed struct {
	row            *Row
	tokens, number int
}

// compare is below 0 if a is given up before b.
func (a placed) compare(b placed) int {
	return cmp.Or(cmp.Compare(a.tokens, b.tokens), cmp.Compare(b.number, a.number))
}

// shortest is a heap with the row that is given up first on top.
type shortest []placed

func (s shortest) Len() int           { return len(s) }
func (s shortest) Less(i, j int) bool { return s[i].compare(s[j]) < 0 }
func (s shortest) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *shortest) Push(x any)        { *s = append(*s, x.(placed)) }
func (s *shortest) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}
