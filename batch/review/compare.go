package review

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"iter"
	"slices"

	"github.com/quire/quire/data/promptset"
)

// Difference is a row whose completions differ in two outputs. A is nil if only the second has the row, B if only the
// first has it.
type Difference struct {
	A, B        *Row
	Generations []int // generations that differ, or that only one of the two has
}

// Comparison is how two outputs differ.
type Comparison struct {
	Same, Different, OnlyA, OnlyB int64 // completions

	a, b  *Output
	wants func(*Row) bool
	found []difference
}

// difference describes the positions of a differing row in both outputs: its number, or nowhere.
type difference struct {
	a, b        int64
	generations []int
}

const nowhere = -1

// order is the order of the first output. Rows that only the second has are placed by their number there.
func (d difference) order(e difference) int {
	place := func(d difference) int64 {
		if d.a == nowhere {
			return d.b
		}
		return d.a
	}
	return cmp.Or(cmp.Compare(place(d), place(e)), cmp.Compare(d.a, e.a), cmp.Compare(d.b, e.b))
}

// Compare compares the completions of two outputs by id and generation, in any order: text, finish reason, error, and
// tokens if both have them. For rows with one id it compares the first of both, the second, and so on. It compares rows
// that wants holds for, or all if it is nil. [Comparison.Rows] then gives the first most rows that differ, or all if
// most is 0.
//
// It reads both side by side and holds digests of the rows that it has met in only one of them: few if both have the
// same order. If they would be too many, it reads the outputs several times, each time for a share of the ids.
func Compare(ctx context.Context, a, b *Output, most int, wants func(*Row) bool) (*Comparison, error) {
	for shares := uint64(1); ; shares *= 2 {
		c := &Comparison{a: a, b: b, wants: wants}
		err := error(nil)
		for share := uint64(0); share < shares && err == nil; share++ {
			err = c.pass(ctx, most, func(k key) bool { return binary.LittleEndian.Uint64(k[:])%shares == share },
				shares < mostShares)
		}
		if !errors.Is(err, errTooMany) {
			c.trim(most)
			return c, err
		}
	}
}

// mostWaiting is how many completions may wait for the other output, at about 100 bytes each.
var mostWaiting = 2_000_000

// mostShares is how often the outputs are read at most. It bounds the time if very many rows have the same id.
const mostShares = 1 << 10

// errTooMany reports that more would wait.
var errTooMany = errors.New("too many rows wait for the other output")

// key is a digest of an id.
type key [16]byte

func keyOf(id string) key {
	sum := sha256.Sum256([]byte(id))
	return key(sum[:16])
}

// digests are what is compared of a row.
type digests struct {
	number int64 // of the row
	list   []digest
}

type digest struct {
	generation int
	text       key // text with reason and error, and the vector
	tokens     key // zero if there are none
}

func (d digest) equal(e digest) bool {
	return d.text == e.text && (d.tokens == e.tokens || d.tokens == key{} || e.tokens == key{})
}

func digestsOf(row *Row, number int64) digests {
	d := digests{number: number}
	var b bytes.Buffer
	for i := range row.Completions {
		c := &row.Completions[i]
		one := digest{generation: c.Generation}
		b.Reset()
		for _, s := range []string{c.Text, c.FinishReason, c.Err} {
			b.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
			b.WriteString(s)
		}
		_ = binary.Write(&b, binary.LittleEndian, c.Vector) // a buffer takes all
		_ = binary.Write(&b, binary.LittleEndian, slices.Concat(c.Vectors...))
		one.text = keyOf(b.String())
		if len(c.TokenIDs) > 0 {
			b.Reset()
			_ = binary.Write(&b, binary.LittleEndian, c.TokenIDs) // a buffer takes all
			one.tokens = keyOf(b.String())
		}
		d.list = append(d.list, one)
	}
	return d
}

// waiting are the rows of one output that the other has not reached yet, by id, the first first.
type waiting struct {
	rows        map[key][]digests
	completions int
	ended       bool // no more come
}

func (w *waiting) add(k key, d digests) {
	w.rows[k] = append(w.rows[k], d)
	w.completions += len(d.list)
}

func (w *waiting) take(k key) (d digests, ok bool) {
	all := w.rows[k]
	if len(all) == 0 {
		return d, false
	}
	if len(all) == 1 {
		delete(w.rows, k)
	} else {
		w.rows[k] = all[1:]
	}
	w.completions -= len(all[0].list)
	return all[0], true
}

// all takes all.
func (w *waiting) all() []digests {
	all := slices.Concat(slices.Collect(func(yield func([]digests) bool) {
		for _, rows := range w.rows {
			if !yield(rows) {
				return
			}
		}
	})...)
	w.rows, w.completions = map[key][]digests{}, 0
	return all
}

// pass compares the rows whose ids are in. It fails if too many wait and the number is bounded.
func (c *Comparison) pass(ctx context.Context, most int, in func(key) bool, bounded bool) error {
	var sides [2]struct {
		next func() (*Row, error, bool)
		waiting
		number int64
	}
	none := func(*promptset.Completion) string { return "" }
	for i, out := range []*Output{c.a, c.b} {
		next, stop := iter.Pull2(wanted(rows(ctx, out, none), c.wants))
		defer stop()
		sides[i].next, sides[i].rows = next, map[key][]digests{}
	}
	only := func(side int, d digests) {
		if side == 0 {
			c.note(d, digests{number: nowhere}, most)
		} else {
			c.note(digests{number: nowhere}, d, most)
		}
	}
	for side := 0; !sides[0].ended || !sides[1].ended; side = 1 - side {
		own, other := &sides[side], &sides[1-side]
		if own.ended {
			continue
		}
		row, err, more := own.next()
		if err != nil {
			return err
		}
		if !more {
			own.ended = true
			for _, d := range other.all() {
				only(1-side, d)
			}
			continue
		}
		k := keyOf(row.ID)
		number := own.number
		own.number++
		if !in(k) {
			continue
		}
		d := digestsOf(row, number)
		match, ok := other.take(k)
		switch {
		case ok && side == 0:
			c.note(d, match, most)
		case ok:
			c.note(match, d, most)
		case other.ended:
			only(side, d)
		default:
			own.add(k, d)
		}
		if bounded && own.completions > mostWaiting {
			return errTooMany
		}
	}
	return nil
}

// note counts the completions of a row in both outputs, and remembers the row if they differ.
func (c *Comparison) note(a, b digests, most int) {
	d := difference{a: a.number, b: b.number}
	for len(a.list)+len(b.list) > 0 {
		switch {
		case len(b.list) == 0 || len(a.list) > 0 && a.list[0].generation < b.list[0].generation:
			c.OnlyA++
			d.generations, a.list = append(d.generations, a.list[0].generation), a.list[1:]
		case len(a.list) == 0 || b.list[0].generation < a.list[0].generation:
			c.OnlyB++
			d.generations, b.list = append(d.generations, b.list[0].generation), b.list[1:]
		default:
			if a.list[0].equal(b.list[0]) {
				c.Same++
			} else {
				c.Different++
				d.generations = append(d.generations, a.list[0].generation)
			}
			a.list, b.list = a.list[1:], b.list[1:]
		}
	}
	if len(d.generations) == 0 {
		return
	}
	if c.found = append(c.found, d); most > 0 && len(c.found) > 2*most+1000 {
		c.trim(most)
	}
}

// trim leaves the first most rows that differ, in order.
func (c *Comparison) trim(most int) {
	slices.SortFunc(c.found, difference.order)
	if most > 0 && len(c.found) > most {
		c.found = slices.Clone(c.found[:most])
	}
}

// Differences yields the rows that differ. It reads both outputs again, and holds only rows that one output has before
// the other.
func (c *Comparison) Differences(ctx context.Context) iter.Seq2[*Difference, error] {
	return func(yield func(*Difference, error) bool) {
		var numbers [2][]int64
		for _, d := range c.found {
			numbers[0], numbers[1] = append(numbers[0], d.a), append(numbers[1], d.b)
		}
		a, b := c.pick(ctx, c.a, numbers[0]), c.pick(ctx, c.b, numbers[1])
		defer a.stop()
		defer b.stop()
		for _, found := range c.found {
			d := &Difference{Generations: found.generations}
			var err error
			if d.A, err = a.find(found.a); err == nil {
				d.B, err = b.find(found.b)
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// picked are some rows of an output, which can be read in about the order of the output.
type picked struct {
	next  func() (*Row, error, bool)
	stop  func()
	wants map[int64]bool
	held  map[int64]*Row // passed over
	place int64          // place of the next row
}

func (c *Comparison) pick(ctx context.Context, out *Output, numbers []int64) *picked {
	p := &picked{wants: map[int64]bool{}, held: map[int64]*Row{}}
	for _, n := range numbers {
		p.wants[n] = true
	}
	p.next, p.stop = iter.Pull2(wanted(Rows(ctx, out), c.wants))
	return p
}

// find returns the row with a number, nil for nowhere.
func (p *picked) find(number int64) (*Row, error) {
	if number == nowhere {
		return nil, nil
	}
	for p.place <= number {
		row, err, more := p.next()
		if err == nil && !more {
			err = errors.New("the output became shorter while it was read")
		}
		if err != nil {
			return nil, err
		}
		if p.wants[p.place] {
			p.held[p.place] = row
		}
		p.place++
	}
	row := p.held[number]
	delete(p.held, number)
	return row, nil
}

// wanted passes on the rows that wants holds for, or all if it is nil.
func wanted(all iter.Seq2[*Row, error], wants func(*Row) bool) iter.Seq2[*Row, error] {
	if wants == nil {
		return all
	}
	return func(yield func(*Row, error) bool) {
		for row, err := range all {
			if (err != nil || wants(row)) && !yield(row, err) {
				return
			}
		}
	}
}
