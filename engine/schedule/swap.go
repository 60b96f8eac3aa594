package schedule

import (
	"cmp"
	"fmt"
	"slices"
)

// swapArea holds the sequences that moved to the host so that others get their pages. The run's goroutine owns it.
type swapArea struct {
	Sizes
	device   Device
	stats    *Stats
	slots    *slots
	prefixes *prefixRows
	names    *namedPages
	pool     *pagePool
	weights  *runWeights
	// sequences are in order of admission. They continue in this order, before anything new is admitted, so that the
	// oldest one always finishes.
	sequences []*swapped
}

// removeCancelled removes sequences that met a stop string, and passes them to ended.
func (a *swapArea) removeCancelled(ended func(*sequence)) {
	a.sequences = slices.DeleteFunc(a.sequences, func(m *swapped) bool {
		cancelled := m.seq.cancelled.Load()
		if cancelled {
			ended(m.seq)
		}
		if cancelled && m.back != nil {
			a.prefixes.drop(m.back)
		}
		return cancelled
	})
}

// preempt swaps out the sequences admitted last until there are pages for the next steps of the others. It returns
// false if that is not enough. It never swaps out the sequence admitted first, so that one always finishes.
func (a *swapArea) preempt(short int, output *Output) (enough bool, err error) {
	decoding := a.slots.decoding()
	// Each sequence that stays will want a page soon: swapping out one more now costs less than preempting again.
	for short += len(decoding) / 4; short > 0 && len(decoding) > 1; short-- {
		seq := decoding[0]
		decoding = decoding[1:]
		if err := a.out(seq, output); err != nil {
			return false, err
		}
		short -= max(0, a.pages(seq.done)-1)
	}
	return len(a.sequences) > 0 && short <= 0, nil
}

// out copies a sequence to the host, as a call left it, and gives up its row.
func (a *swapArea) out(seq *sequence, output *Output) error {
	pages, err := a.device.Save(seq.row, seq.done)
	if err != nil {
		return fmt.Errorf("moving a sequence to the host: %w", err)
	}
	a.slots.vacate(seq)
	each := len(output.StopStates) / a.Rows()
	stops := slices.Clone(output.StopStates[seq.row*each : (seq.row+1)*each])
	a.sequences = append(a.sequences, &swapped{seq: seq, pages: pages, stops: stops})
	slices.SortFunc(a.sequences, func(x, y *swapped) int { return cmp.Compare(x.seq.admission, y.seq.admission) })
	a.stats.Preemptions++
	a.stats.MovedBytes += a.device.Bytes(seq.done)
	return nil
}

// in loads sequences, as far as there are pages for them and one more page for each that runs, and offers them before
// everything else.
func (a *swapArea) in(o *offer) error {
	for _, m := range a.sequences {
		seq := m.seq
		if !a.mayContinue(m) {
			continue
		}
		if m.back == nil {
			loaded, err := a.load(m, a.slots.active+len(o.waiting))
			if err != nil {
				return fmt.Errorf("moving a sequence back from the host: %w", err)
			}
			if !loaded {
				break
			}
		}
		start, ok := o.appendPrompt([]int32{seq.last}, 0, a.PromptLimit)
		if o.recalls += len(seq.generated); !ok || o.recalls > a.PromptLimit {
			break
		}
		o.waiting = append(o.waiting, seq)
		// The source is the row that holds the sequence again: the source of its group may be gone. The sequence gets
		// no more pages than it had, because there may be no more.
		o.Waiting = append(o.Waiting, Entry{Request: seq.group.Request, Generation: seq.generation,
			Start: start - seq.done, PromptLen: seq.done, MaxPages: a.pages(seq.done), Source: m.back.row, Named: None,
			Held: seq.done, Resume: true, StopStates: m.stops, Drawn: seq.generated})
		o.resumed++
	}
	return nil
}

// load copies a sequence into an unused row. It returns false if there is no row, or if there are not enough pages in
// addition to those that the others need.
func (a *swapArea) load(m *swapped, others int) (ok bool, err error) {
	seq, origin := m.seq, a.originOf(m.seq)
	pages := a.pages(seq.done) - origin.Pages + a.names.unheld(origin.Named)
	if !a.hasPagesFor(seq, pages, others) {
		return false, nil
	}
	row, ok := a.prefixes.unused()
	if !ok {
		return false, nil
	}
	taken, err := a.device.Load(row, m.pages, origin)
	if err != nil {
		return false, err
	}
	a.names.loaded(seq, origin, taken)
	a.pool.free -= pages
	m.back = a.prefixes.addLoaded(row, seq.done)
	shared := origin.Pages / a.BlockPages * a.BlockPages * a.PageSize // whole blocks are not copied
	a.stats.MovedBytes += a.device.Bytes(m.pages.Tokens) - a.device.Bytes(shared)
	return true, nil
}

// hasPagesFor reports whether there are pages to load a sequence, and one more page for each of the others. The partial
// page of the sequence is held twice for a moment, and the sequence will want the next one; if nothing else runs, it
// may wait for that.
func (a *swapArea) hasPagesFor(seq *sequence, pages, others int) bool {
	free := a.pool.unreserved()
	if others > 0 {
		return free >= pages+2+others
	}
	if seq.done%a.PageSize != 0 {
		pages++
	}
	return free >= pages
}

// originOf returns what a sequence that comes back has on the device: named pages, or pages of a row, which may be the
// row of its context. The one with the most pages wins.
func (a *swapArea) originOf(seq *sequence) Origin {
	origin := Origin{Row: None}
	if seq.mixed { // no other row has its keys and values
		return origin
	}
	if row, pages := a.prefixes.byChain.Longest(seq.group.chain); pages > 0 {
		if p := a.prefixes.useOf(row); p.opened && p.done >= pages*a.PageSize {
			origin = Origin{Row: row, Pages: pages}
		}
	}
	if pages := a.prefixes.heldByContext(seq.group.Request) / a.PageSize; pages > 0 && pages >= origin.Pages {
		origin = Origin{Row: seq.group.Context, Pages: pages}
	}
	if a.names.index != nil {
		names := seq.names.Names
		pages := a.names.longest(names[:min(len(names), seq.done/a.PageSize)])
		if len(pages) > origin.Pages {
			return namedOrigin(pages)
		}
	}
	return origin
}

// mayContinue reports whether the run has the weights that generate the next token of a sequence.
func (a *swapArea) mayContinue(m *swapped) bool {
	return a.weights.may(m.seq.group.Request, m.seq.numGenerated())
}

// continues reports whether any of the sequences may continue.
func (a *swapArea) continues() bool { return slices.ContainsFunc(a.sequences, a.mayContinue) }

// resumed records that a sequence got a slot.
func (a *swapArea) resumed(seq *sequence, row int) {
	i := slices.IndexFunc(a.sequences, func(m *swapped) bool { return m.seq == seq })
	a.prefixes.drop(a.sequences[i].back)
	a.sequences = slices.Delete(a.sequences, i, i+1)
	a.slots.resume(seq, row)
}

// forgetRows makes all sequences come back from the host again: their rows are dropped.
func (a *swapArea) forgetRows() {
	for _, m := range a.sequences {
		m.back = nil
	}
}

// wanted returns the blocks that the next sequences will want from the host, up to about Sizes.Staged.
func (a *swapArea) wanted() (want []Block) {
	for _, m := range a.sequences {
		if m.back == nil && a.mayContinue(m) && len(want) < a.Staged {
			want = append(want, m.pages.Blocks[a.originOf(m.seq).Pages/a.BlockPages:]...)
		}
	}
	return want
}
