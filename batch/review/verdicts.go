package review

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/quire/quire/data/promptset"
)

// PassAtK describes how often one of k completions of a prompt is right.
type PassAtK struct {
	Column   string `json:"column"`
	Verdicts int64  `json:"verdicts"` // verdicts on completions without errors
	Passed   int64  `json:"passed"`
	Prompts  int64  `json:"prompts"` // prompts with a verdict
	// Without counts completions without a verdict, and Failed those with an error. They are left out.
	Without int64  `json:"without"`
	Failed  int64  `json:"failed"`
	At      []Pass `json:"at"`
}

// Pass is pass@k, over the prompts that have at least K verdicts.
type Pass struct {
	K       int     `json:"k"`
	Share   float64 `json:"pass"`
	Prompts int64   `json:"prompts"`
}

// passAt is the chance that one of k completions is right, given n completions with c right ones: the unbiased
// estimator of Chen et al. 2021, https://arxiv.org/abs/2107.03374.
func passAt(n, c, k int) float64 {
	if n-c < k {
		return 1
	}
	none := 1.0
	for i := n - c + 1; i <= n; i++ {
		none *= 1 - float64(k)/float64(i)
	}
	return 1 - none
}

// Verdicts are a column that reports which completions are right, by id and generation, in any file.
type Verdicts struct {
	column  string
	from    string
	next    func() (verdict, error, bool)
	stop    func()
	ended   bool
	waiting map[key]byte   // verdicts waiting for their completions
	more    map[key][]byte // the next ones with the same id and generation
	counts  map[[2]int]int64
	ks      []int
	total   PassAtK
}

const (
	wrong = iota
	right
	unknown
)

type verdict struct {
	key    key
	result byte
}

// VerdictsOf reads verdicts from the column of a Parquet or JSONL file, or of the output's parts. The others are id
// and generation. ks are the numbers of completions; without any they are the powers of 2 up to the most verdicts of
// a prompt.
func VerdictsOf(ctx context.Context, from *promptset.Output, name, column string, ks []int) *Verdicts {
	v := &Verdicts{column: column, from: name, waiting: map[key]byte{}, more: map[key][]byte{},
		counts: map[[2]int]int64{}, ks: ks}
	v.next, v.stop = iter.Pull2(v.read(ctx, from))
	return v
}

// Close ends the reading.
func (v *Verdicts) Close() error {
	if v != nil {
		v.stop()
	}
	return nil
}

func (v *Verdicts) read(ctx context.Context, from *promptset.Output) iter.Seq2[verdict, error] {
	return func(yield func(verdict, error) bool) {
		for _, part := range from.Parts {
			number := 0
			for values, err := range from.Values(ctx, part, []string{"id", "generation", v.column}) {
				var one verdict
				if err != nil {
					err = fmt.Errorf("verdicts of %s: %w", part.Name, err)
				} else if one, err = verdictOf(values, v.column); err != nil {
					err = fmt.Errorf("%s, row %d: %w", part.Name, number, err)
				}
				if number++; !yield(one, err) || err != nil {
					return
				}
			}
		}
	}
}

func verdictOf(values []any, column string) (one verdict, err error) {
	var id string
	switch value := values[0].(type) {
	case string:
		id = value
	case int64:
		id = fmt.Sprint(value)
	default:
		return one, fmt.Errorf("id is %v; it must be text or a whole number", value)
	}
	generation, ok := values[1].(int64)
	if !ok {
		return one, fmt.Errorf("generation is %v; it must be a whole number", values[1])
	}
	one.key = completionKey(id, generation)
	switch values[2] {
	case nil:
		one.result = unknown
	case true, int64(1), 1.0:
		one.result = right
	case false, int64(0), 0.0:
		one.result = wrong
	default:
		return one, fmt.Errorf("%s is %v; it must be true, false, 1, 0 or null", column, values[2])
	}
	return one, nil
}

func completionKey(id string, generation int64) key {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, uint64(generation)), id...))
	return key(sum[:16])
}

// row takes the verdicts of a row.
func (v *Verdicts) row(row *Row) error {
	if v == nil {
		return nil
	}
	var n, c int
	for i := range row.Completions {
		done := &row.Completions[i]
		if done.Err != "" {
			v.total.Failed++
			continue
		}
		judged, err := v.take(completionKey(row.ID, int64(done.Generation)))
		switch {
		case err != nil:
			return err
		case judged == unknown:
			v.total.Without++
			continue
		case judged == right:
			c++
		}
		n++
	}
	if n > 0 {
		v.counts[[2]int{n, c}]++
	}
	return nil
}

// take returns the next verdict of a completion, reading up to it.
func (v *Verdicts) take(k key) (byte, error) {
	for {
		if judged, ok := v.waiting[k]; ok {
			if next := v.more[k]; len(next) > 0 {
				v.waiting[k], v.more[k] = next[0], next[1:]
			} else {
				delete(v.waiting, k)
				delete(v.more, k)
			}
			return judged, nil
		}
		if v.ended {
			return unknown, nil
		}
		one, err, more := v.next()
		if err != nil {
			return 0, err
		}
		if v.ended = !more; v.ended {
			continue
		}
		if _, ok := v.waiting[one.key]; ok {
			v.more[one.key] = append(v.more[one.key], one.result)
		} else {
			v.waiting[one.key] = one.result
		}
	}
}

// sortedCounts returns the keys in one order: sums of floats depend on it.
func sortedCounts(counts map[[2]int]int64) [][2]int {
	return slices.SortedFunc(maps.Keys(counts), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
}

// result is nil without verdicts.
func (v *Verdicts) result() (*PassAtK, error) {
	if v == nil {
		return nil, nil
	}
	p := v.total
	p.Column, p.At = v.column, []Pass{}
	most := 0
	for counts, rows := range v.counts {
		p.Verdicts += int64(counts[0]) * rows
		p.Passed += int64(counts[1]) * rows
		p.Prompts += rows
		most = max(most, counts[0])
	}
	if p.Verdicts == 0 {
		return nil, fmt.Errorf("no verdict of %s belongs to a completion: id and generation must be those of the "+
			"output", v.from)
	}
	ks := slices.Clone(v.ks)
	if len(ks) == 0 {
		for k := 1; k <= most; k *= 2 {
			ks = append(ks, k)
		}
	}
	all := sortedCounts(v.counts)
	for _, k := range ks {
		one := Pass{K: k}
		for _, counts := range all {
			if counts[0] >= k {
				one.Prompts += v.counts[counts]
				one.Share += passAt(counts[0], counts[1], k) * float64(v.counts[counts])
			}
		}
		if one.Prompts > 0 {
			one.Share /= float64(one.Prompts)
		}
		p.At = append(p.At, one)
	}
	return &p, nil
}
