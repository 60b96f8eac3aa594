package masking_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/bench/workload"
	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/text/grammar"
	"github.com/quire/quire/text/grammar/jsontext"
	"github.com/quire/quire/text/tokenizer"
)

// replay is the host's side of the workload "schemas" without a device: slots walk the tables as the device would, and
// draw tokens by their numbers, since frequent ones have low numbers. What it counts does not depend on the machine.
type replay struct {
	slots, steps int // of a call
	mostWaited   int // tokens that slots may miss in a call
	perStep      int // states that the host looks at while the device runs a step

	arena      *masking.Arena
	vocabulary *masking.Vocabulary
	machines   []*masking.Machine
	rare       []bool // tokens with bytes that texts seldom have
	lengths    []int  // of rows

	// The device's tables.
	sizes masking.Sizes
	next  []int32
	info  []int32
	bits  []uint32

	counts replayed
}

// replayed is what a replay counts.
type replayed struct {
	calls, early, steps, missed int
	ahead                       time.Duration
}

// slot is a row that stands in a slot.
type slot struct {
	reader *masking.Reader
	row    int     // of the workload
	at     int32   // on the device
	drawn  []int32 // in this call
	tokens int
}

func newReplay(b *testing.B) *replay {
	model, err := setup.FindModel("smollm2")
	if err != nil {
		b.Skip(err)
	}
	tok, err := tokenizer.Open(model)
	if err != nil {
		b.Fatal(err)
	}
	pieces, err := tok.Pieces()
	if err != nil {
		b.Fatal(err)
	}
	w, err := workload.Open("schemas")
	if err != nil {
		b.Fatal(err)
	}
	const size = 49152
	rows, err := w.Rows(size)
	if err != nil {
		b.Fatal(err)
	}
	r := &replay{slots: 64, steps: 16, mostWaited: 8, perStep: 500,
		sizes:      masking.Sizes{States: 32768, Masks: 4096, Words: size / 32, PatchStates: 2048, PatchMasks: 64},
		vocabulary: masking.NewVocabulary(pieces, size, []int32{2})}
	r.arena = masking.New(r.sizes)
	r.next, r.info = make([]int32, r.sizes.States*masking.Width), make([]int32, r.sizes.States)
	r.bits = make([]uint32, r.sizes.Masks*r.sizes.Words)
	for token := range int32(size) {
		rare := false
		for _, c := range r.vocabulary.Of(token) {
			rare = rare || c >= 0x80 || c == '\\'
		}
		r.rare = append(r.rare, rare)
	}
	bySchema := map[string]*masking.Machine{}
	for _, row := range rows {
		if bySchema[row.Schema] == nil {
			bySchema[row.Schema], err = masking.NewMachine(stopping.OfText, func() (masking.Automaton, error) {
				a, err := grammar.JSONSchema([]byte(row.Schema), grammar.Options{Whitespace: jsontext.NoSpace})
				if err != nil {
					return nil, err
				}
				return masking.NewText(a, r.vocabulary), nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		r.machines, r.lengths = append(r.machines, bySchema[row.Schema]), append(r.lengths, row.MaxTokens)
	}
	return r
}

// run draws all rows.
func (r *replay) run(b *testing.B) replayed {
	r.counts = replayed{}
	slots, next := make([]*slot, r.slots), 0
	var waiting []*slot
	for {
		for ; next < len(r.machines) && len(waiting) < r.slots; next++ {
			waiting = append(waiting, &slot{reader: r.arena.Start(r.machines[next]), row: next})
		}
		var all []*slot
		for _, s := range append(append([]*slot{}, slots...), waiting...) {
			if s != nil {
				all = append(all, s)
			}
		}
		if len(all) == 0 {
			return r.counts
		}
		r.place(b, all)
		steps := r.call(slots, &waiting)
		looked, began := steps*r.perStep, time.Now()
		r.arena.Ahead(func() bool { looked--; return looked < 0 })
		r.counts.ahead += time.Since(began)
		for _, s := range all {
			for _, token := range s.drawn {
				if !r.arena.Walk(s.reader, r.vocabulary.Of(token)) {
					b.Fatalf("row %d can not draw token %d", s.row, token)
				}
			}
			s.drawn = nil
		}
	}
}

// place brings the states of rows to the device.
func (r *replay) place(b *testing.B, rows []*slot) {
	var readers []*masking.Reader
	for _, s := range rows {
		readers = append(readers, s.reader)
	}
	placed, err := r.arena.Place(readers)
	if err != nil {
		b.Fatal(err)
	}
	for i, s := range rows {
		s.at = placed[i]
	}
	for more := true; more; {
		var p *masking.Patch
		p, more = r.arena.Take()
		if p.Clear[0] != 0 {
			clear(r.info)
			clear(r.next)
		}
		for i, row := range p.States {
			if row >= 0 {
				copy(r.next[int(row)*masking.Width:][:masking.Width], p.Next[i*masking.Width:])
				r.info[row] = p.Info[i]
			}
		}
		for i, mask := range p.Masks {
			if mask >= 0 {
				copy(r.bits[int(mask)*r.sizes.Words:][:r.sizes.Words], p.Bits[i*r.sizes.Words:])
			}
		}
	}
}

// call takes the slots through as many steps as a call has, and fills those that are free.
func (r *replay) call(slots []*slot, waiting *[]*slot) (steps int) {
	r.counts.calls++
	for missed := 0; ; steps++ {
		draws, waits := 0, 0
		for i, s := range slots {
			if s == nil && len(*waiting) > 0 {
				slots[i], *waiting = (*waiting)[0], (*waiting)[1:]
				s = slots[i]
			}
			if s != nil && r.info[s.at] > 0 {
				draws++
			} else if s != nil {
				waits++
			}
		}
		if steps == r.steps || draws == 0 || missed+waits > r.mostWaited {
			if waits > 0 && steps < r.steps {
				r.counts.early++
			}
			return steps
		}
		missed += waits
		r.counts.missed += waits
		r.counts.steps++
		for i, s := range slots {
			if s == nil || r.info[s.at] == 0 {
				continue
			}
			token := r.draw(s)
			s.drawn, s.tokens = append(s.drawn, token), s.tokens+1
			for _, c := range r.vocabulary.Of(token) {
				s.at = r.next[int(s.at)*masking.Width+int(c)]
			}
			if s.tokens == r.lengths[s.row] {
				slots[i] = nil
			}
		}
	}
}

// draw draws a token of a row's mask.
func (r *replay) draw(s *slot) int32 {
	of, _, _ := masking.Info(r.info[s.at])
	mask := r.bits[int(of)*r.sizes.Words:][:r.sizes.Words]
	rnd := rand.New(rand.NewPCG(uint64(s.row), uint64(s.tokens)))
	zipf := rand.NewZipf(rnd, 1.1, 50, uint64(32*r.sizes.Words-1))
	for range 2000 {
		token := int32(zipf.Uint64())
		if masking.Has(mask, token) && (!r.rare[token] || rnd.IntN(20) == 0) {
			return token
		}
	}
	k := rnd.IntN(masking.Count(mask))
	for token := int32(0); ; token++ {
		if masking.Has(mask, token) {
			if k--; k < 0 {
				return token
			}
		}
	}
}

// The workload "schemas" on the host's side alone: how many steps and calls it takes, how many tokens slots miss that
// wait for the host, how many states it places, in a first run and a second one.
func BenchmarkReplay(b *testing.B) {
	for b.Loop() {
		r := newReplay(b)
		for _, name := range []string{"first", "second"} {
			c := r.run(b)
			states, masks, flushes := r.arena.Full()
			b.ReportMetric(float64(c.calls), name+"-calls")
			b.ReportMetric(float64(c.early), name+"-early")
			b.ReportMetric(float64(c.steps), name+"-steps")
			b.ReportMetric(float64(c.missed), name+"-missed")
			b.ReportMetric(float64(states), name+"-states")
			b.ReportMetric(float64(masks), name+"-masks")
			b.ReportMetric(float64(flushes), name+"-flushes")
			b.ReportMetric(c.ahead.Seconds()*1000, name+"-ahead-ms")
		}
	}
}
