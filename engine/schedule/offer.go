package schedule

import "slices"

// offer is the input of one call while it is laid out, with what the scheduler must know of its entries afterwards. It
// lives from its layout until the call's output is applied, on the run's goroutine.
type offer struct {
	Input
	waiting []*sequence  // the sequences of Input.Waiting
	ahead   []*prefixRow // the rows of Input.Ahead
	before  []*sequence  // by slot, before the call: Output.Owners counts them, and later ones have the slots then
	resumed int          // how many of waiting, the first ones, were swapped out and continue
	room    int          // free pages that the call may still hold for entries
	recalls int          // tokens in Entry.Drawn of all entries
	// namedAt has the index in Input.Named of each list of pages, since many entries begin with the same list.
	namedAt map[namedList]int
	isNamed map[int32]bool // pages in Input.Named, which count against room once
}

// namedList stands for a list of named pages. The last page and their number identify the list: a name states all pages
// before it.
type namedList struct {
	last  int32
	count int
}

func newOffer(rows []*sequence, release []bool) *offer {
	return &offer{before: slices.Clone(rows), namedAt: map[namedList]int{}, isNamed: map[int32]bool{},
		Input: Input{Starts: make([]int32, len(release)), Release: release}}
}

// appendPrompt appends a prompt's tokens from a position on, and returns the start of the prompt. It returns false if
// they exceed the limit.
func (o *offer) appendPrompt(tokens []int32, from, limit int) (start int, ok bool) {
	if len(o.Tokens)+len(tokens)-from > limit {
		return 0, false
	}
	start = len(o.Tokens) - from
	o.Tokens = append(o.Tokens, tokens[from:]...)
	return start, true
}

// freePages counts the pages that no row holds and the call does not hold yet.
func (o *offer) freePages(names *namedPages, pages []int32) (count int) {
	for _, page := range pages {
		if names.index.Free(page) && !o.isNamed[page] {
			count++
		}
	}
	return count
}

// hold makes the call hold named pages that entries begin with, and returns their index in Input.Named. It returns
// false if they exceed the limit, or if the pool can't spare them.
func (o *offer) hold(names *namedPages, pages []int32, limit int) (index int, ok bool) {
	if len(pages) == 0 {
		return None, true
	}
	key := namedList{pages[len(pages)-1], len(pages)}
	if index, ok := o.namedAt[key]; ok {
		return index, true
	}
	free := o.freePages(names, pages)
	if len(o.Named)+len(pages) > limit || free > o.room {
		return None, false
	}
	o.room -= free
	names.index.Share(pages...)
	for _, page := range pages {
		o.isNamed[page] = true
	}
	index = len(o.Named)
	o.Named, o.namedAt[key] = append(o.Named, pages...), index
	return index, true
}
