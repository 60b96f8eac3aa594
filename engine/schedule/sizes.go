package schedule

// None stands for no row.
const None = -1

// Sizes are the sizes that the engine settled on, as far as the scheduler depends on them. The rows of the sequence
// table are the slots, the prefix rows, the contexts and one row in which scores of contexts are computed, in this
// order.
type Sizes struct {
	Slots       int // rows that decode; MaxSeqs of them are used
	MaxSeqs     int
	PrefixRows  int // rows of prompts and prefixes that completions start from
	Contexts    int
	Pages       int
	PageSize    int
	PagesPerSeq int  // the most pages of a sequence
	MaxRounds   int  // the most columns of output that a call returns
	PromptLimit int  // prompt tokens that a call takes
	Paged       bool // pages can be shared
	PrefixCache bool // pages have names and serve all prompts that begin with them
	// NameDrawn reports whether a page of generated tokens has the bytes that the same tokens have in a prompt. Only
	// then may it have a name, too.
	NameDrawn bool
	// States reports whether a page also has states of layers. They are the states after the last token that the page
	// ran, so a row can begin only with whole pages of another row, or with all that this row has run.
	States     bool
	Mixed      bool // prompt steps also run the sequences that decode
	Reserve    bool // a sequence is admitted with all pages that it may need, not only with pages for its prompt
	BlockPages int  // pages that are copied to the host and back together
	Staged     int  // blocks that may be on their way to the device during a call
}

// Rows returns the number of rows of the sequence table.
func (s Sizes) Rows() int {
	if s.Contexts == 0 {
		return s.FirstContext()
	}
	return s.ScoreRow() + 1
}

// ScoreRow returns the row in which scores of contexts are computed, if there are contexts.
func (s Sizes) ScoreRow() int { return s.FirstContext() + s.Contexts }

// FirstContext returns the first row of contexts.
func (s Sizes) FirstContext() int { return s.Slots + s.PrefixRows }

// WaitingLen returns how many waiting sequences a call takes.
func (s Sizes) WaitingLen() int { return s.Slots }

// AheadLen returns how many prompts and prefixes a call takes that run ahead of their clones.
func (s Sizes) AheadLen() int { return max(1, s.PrefixRows) }

// NamedLen returns the most named pages that entries of a call can start with.
func (s Sizes) NamedLen() int {
	if !s.PrefixCache {
		return 1
	}
	return max(s.PagesPerSeq, s.PromptLimit/s.PageSize)
}

func (s Sizes) pages(tokens int) int { return ceilDiv(tokens, s.PageSize) }

// Nobody returns the owner, in the ids of Output.Owners, of pages that were taken and mean nothing.
func (s Sizes) Nobody() int { return s.WaitingLen() + s.Rows() }

// PageFate reads an element of Output.Pages: which owner took the page in the call, as an id of Output.Owners or -1,
// for which place of the sequence, and whether a row holds the page when the call ends.
func (s Sizes) PageFate(v int32) (owner, place int, held bool) {
	if v < 0 {
		return -1, 0, v == -1
	}
	by := int(v >> 1)
	return by / s.PagesPerSeq, by % s.PagesPerSeq, v&1 == 1
}

// wholePages returns how many of the first n tokens of a row a different row may start with.
func (s Sizes) wholePages(n int) int {
	if s.States {
		n -= n % s.PageSize
	}
	return n
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
