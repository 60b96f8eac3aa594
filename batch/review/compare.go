package review

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"github.com/quire/quire/promptset"
)

// Difference is a completion that two outputs do not both have, or not with the same text. A is nil where only the
// second has it, B where only the first has it.
type Difference struct {
	ID, Prompt string
	Generation int
	A, B       *promptset.Result
}

// Comparison is how two outputs differ.
type Comparison struct {
	Same, Different, OnlyA, OnlyB int64 // completions
	Differences                   []Difference
}

// key tells completions apart: the id of the row, how many rows with that id came before it, and the generation.
type key struct {
	id         string
	repetition int
	generation int
}

// Compare compares the completions of two outputs by id and generation, whatever their order. It lists the first most
// differences, or all if most is 0: those in a, in its order, then what only b has.
func Compare(ctx context.Context, a, b *promptset.Output, most int) (*Comparison, error) {
	sums := map[key][sha256.Size]byte{}
	err := each(ctx, b, func(k key, _ *Row, c *promptset.Result) { sums[k] = sumOf(c) })
	if err != nil {
		return nil, err
	}
	result := &Comparison{}
	wanted := map[key]int{} // places in Differences
	note := func(k key, d Difference) {
		if most == 0 || len(result.Differences) < most {
			wanted[k] = len(result.Differences)
			result.Differences = append(result.Differences, d)
		}
	}
	err = each(ctx, a, func(k key, row *Row, c *promptset.Result) {
		sum, both := sums[k]
		delete(sums, k)
		switch {
		case !both:
			result.OnlyA++
		case sum == sumOf(c):
			result.Same++
			return
		default:
			result.Different++
		}
		note(k, Difference{ID: row.ID, Prompt: row.Prompt, Generation: c.Generation, A: c})
	})
	if err != nil {
		return nil, err
	}
	result.OnlyB = int64(len(sums))
	// What b has of them.
	err = each(ctx, b, func(k key, row *Row, c *promptset.Result) {
		if _, only := sums[k]; only {
			note(k, Difference{ID: row.ID, Prompt: row.Prompt, Generation: c.Generation})
		}
		if at, ok := wanted[k]; ok {
			result.Differences[at].B = c
		}
	})
	return result, err
}

// each calls do with each completion of an output.
func each(ctx context.Context, out *promptset.Output, do func(key, *Row, *promptset.Result)) error {
	seen := map[string]int{}
	for row, err := range Rows(ctx, out) {
		if err != nil {
			return err
		}
		for i := range row.Completions {
			c := &row.Completions[i]
			do(key{row.ID, seen[row.ID], c.Generation}, row, c)
		}
		seen[row.ID]++
	}
	return nil
}

// sumOf is of what counts as the same: text, tokens where the output has them, reason and error.
func sumOf(c *promptset.Result) [sha256.Size]byte {
	h := sha256.New()
	for _, s := range []string{c.Text, c.FinishReason, c.Err} {
		_ = binary.Write(h, binary.LittleEndian, int64(len(s))) // a hash takes all
		h.Write([]byte(s))
	}
	_ = binary.Write(h, binary.LittleEndian, c.TokenIDs)
	return [sha256.Size]byte(h.Sum(nil))
}
