package schedule

import "github.com/quire/quire/engine/prefix"

// namedPages is the host's account of which pages of the device have names, by which prompts begin with them, and of
// the scores of their tokens. Without a prefix cache it is empty, and no page ever gets a name. The run's goroutine
// owns it during a run; the index outlives the run.
type namedPages struct {
	pageSize      int
	nameGenerated bool        // see Sizes.NameDrawn
	seed          prefix.Hash // see Config.PrefixSeed; another one after the weights were replaced
	// index has the names. It may name a page only while the page has the bytes that the name states: every page that
	// is taken is forgotten first. nil without a prefix cache.
	index *prefix.Index
	// takers has, by page, the sequence that took it last in this run, or nil. A row that released a page must not name
	// it after another row has taken it.
	takers []*holding
	taken  int         // pages that the last call took
	scores *scoreCache // scores of named pages whose prompts were scored
}

func newNamedPages(cfg *Config) *namedPages {
	return &namedPages{pageSize: cfg.PageSize, nameGenerated: cfg.NameDrawn, seed: cfg.PrefixSeed, index: cfg.Index,
		takers: make([]*holding, cfg.Sizes.Pages), scores: newScoreCache(cfg.PageSize, scoreBytes)}
}

// seedOf returns the hash that the names of a prompt's pages begin with. Pages of scored prompts have names of their
// own, so that every page with such a name was scored; so have pages with keys of short divisors, pages after a mixed
// context, and pages that were run with an adapter.
func (n *namedPages) seedOf(r *Request, mixed int) prefix.Hash {
	seed := n.seed
	if mixed > 0 {
		seed = prefix.Chain(seed, []int32{-3, int32(mixed)}, 2)[0]
	}
	if r.Short {
		seed = ShortSeed(seed)
	}
	if r.Adapter != nil {
		seed = prefix.Seed("adapter", string(seed[:]), string(r.Adapter.Digest[:]))
	}
	score := r.pageScore()
	if score == 0 {
		return seed
	}
	return prefix.Chain(seed, []int32{-1, int32(score)}, 2)[0]
}

// ShortSeed returns the hash that names of pages of a [Request.Short] begin with, given the hash for other requests.
func ShortSeed(seed prefix.Hash) prefix.Hash { return prefix.Chain(seed, []int32{-2}, 1)[0] }

// longest returns the pages on the device that a chain begins with.
func (n *namedPages) longest(chain []prefix.Hash) []int32 {
	if n.index == nil {
		return nil
	}
	return n.index.Longest(chain)
}

// beginning returns the pages on the device that a prompt begins with and, if it is scored, the scores that it takes
// over. The scores are known for the pages, and for the first token after them, which the prompt does not score itself.
func (n *namedPages) beginning(chain []prefix.Hash, score int) (pages []int32, scores []*Scores) {
	pages = n.longest(chain)
	if score == 0 {
		return pages, nil
	}
	scores = n.scores.known(chain[:min(len(chain), len(pages)+1)])
	return pages[:min(len(pages), max(0, len(scores)-1))], scores
}

// unheld counts the pages that no row holds.
func (n *namedPages) unheld(pages []int32) (count int) {
	for _, page := range pages {
		if n.index.Free(page) {
			count++
		}
	}
	return count
}

// admitted prepares a sequence that got a slot for naming its pages.
func (n *namedPages) admitted(seq *sequence) {
	if n.index == nil {
		return
	}
	g := seq.group
	seq.names = prefix.NewNamer(g.seed, g.chain, g.Tokens, n.pageSize)
	seq.settled = g.held / n.pageSize
}

// generated records a token that a sequence generated. The tokens before it are in the cache.
func (n *namedPages) generated(seq *sequence, finish Finish) {
	if n.index == nil || finish == NotANumber || seq.mixed {
		return // pages whose keys may not be numbers get no names
	}
	seq.done = max(seq.done+1, len(seq.group.Tokens)) // the first token comes from the prompt's last
	if n.nameGenerated && !seq.group.Leaf {
		seq.names.Push(seq.last)
	}
}

// settle records which sequence took which pages in a call, and names the full pages.
func (n *namedPages) settle(s Sizes, owners []*sequence, prefixes *prefixRows, output *Output) {
	if n.index == nil {
		return
	}
	n.index.Tick()
	n.taken = 0
	for page, fate := range output.Pages {
		owner, place, held := s.PageFate(fate)
		if owner >= 0 {
			n.taken++
			h := &holding{} // holding of an owner that is no longer known
			if owner >= len(owners) {
				h = prefixes.holdingOf(owner-len(owners), h)
			} else if seq := owners[owner]; seq != nil {
				h = &seq.holding
			}
			n.reassign(int32(page), h)
			h.put(place, int32(page))
		}
		n.index.Hold(int32(page), held)
	}
	for _, seq := range owners {
		if seq != nil && !seq.mixed {
			n.name(&seq.holding, seq.names.Names, seq.done)
		}
	}
	for p := range prefixes.opened() {
		if p.pinned == nil {
			n.name(&p.holding, p.chain, p.done)
			n.index.Share(n.index.Longest(p.chain)...)
		}
	}
}

// loaded records which pages hold a sequence that came back from the host.
func (n *namedPages) loaded(seq *sequence, origin Origin, taken []int32) {
	seq.holding = holding{settled: seq.done / n.pageSize}
	if n.index == nil {
		return
	}
	for _, page := range origin.Named {
		n.index.Hold(page, true)
	}
	for i, page := range taken {
		n.reassign(page, nil)
		n.index.Hold(page, true)
		if place := origin.Pages + i; !seq.mixed && place < min(seq.settled, len(seq.names.Names)) {
			n.index.Name(page, seq.names.Names, place)
		}
	}
}

// restored records that a page came back from the host cache with its contents.
func (n *namedPages) restored(page int32, chain []prefix.Hash, place int) {
	n.reassign(page, nil)
	n.index.Name(page, chain, place)
}

// reassign records that a page was taken: its contents are gone.
func (n *namedPages) reassign(page int32, h *holding) {
	n.index.Forget(page)
	n.takers[page] = h
}

// name names the full pages that a row took, given how many of its tokens ran.
func (n *namedPages) name(h *holding, names []prefix.Hash, done int) {
	for full := min(done/n.pageSize, len(names)); h.settled < full; h.settled++ {
		if h.settled >= len(h.ids) {
			continue
		}
		if page := h.ids[h.settled]; page != None && n.takers[page] == h {
			n.index.Name(page, names, h.settled)
		}
	}
}
