package review

import (
	"encoding/binary"
	"strings"

	"github.com/axiomhq/hyperloglog"
	"github.com/cespare/xxhash/v2"

	"github.com/quire/quire/data/promptset"
)

// Distinct are the shares of different n-grams among all of an output: distinct-1 to distinct-3 of Li et al. 2016,
// https://arxiv.org/abs/1510.03055. An n-gram lies within a completion.
type Distinct struct {
	// Over is "tokens", or "words", separated by white space, for an output without tokens.
	Over  string     `json:"over"`
	Of    int64      `json:"of"` // tokens or words
	Share [3]float64 `json:"share"`
	// Estimated reports whether there are too many n-grams to count: the shares of these are within about 1 % of their
	// value.
	Estimated [3]bool `json:"estimated"`
	// Without counts completions without tokens in an output that has some; they are left out.
	Without int64 `json:"without,omitempty"`
}

// exactNgrams is how many different n-grams of one length are counted exactly, at about 20 bytes each. Beyond that,
// their number is estimated from 64 KiB, with a standard error of 0.4 %.
var exactNgrams = 1 << 20

// ngrams counts different n-grams.
type ngrams struct {
	over    string
	total   [3]int64
	exact   [3]map[uint64]struct{}
	sketch  [3]*hyperloglog.Sketch
	without int64
}

func newNgrams() *ngrams {
	n := &ngrams{}
	for i := range n.exact {
		n.exact[i] = map[uint64]struct{}{}
	}
	return n
}

// add takes a completion. The first one that has a text reports whether the output has tokens.
func (g *ngrams) add(c *promptset.Result) {
	if g.over == "" && len(c.TokenIDs) > 0 {
		g.over = "tokens"
	}
	if g.over == "" && strings.TrimSpace(c.Text) != "" {
		g.over = "words"
	}
	if g.over == "tokens" {
		if len(c.TokenIDs) == 0 && c.Text != "" {
			g.without++
		}
		var bytes []byte
		for _, id := range c.TokenIDs {
			bytes = binary.LittleEndian.AppendUint32(bytes, uint32(id))
		}
		g.ngrams(len(c.TokenIDs), func(from, to int) uint64 { return xxhash.Sum64(bytes[4*from : 4*to]) })
		return
	}
	words := strings.Fields(c.Text)
	g.ngrams(len(words), func(from, to int) uint64 { return xxhash.Sum64String(strings.Join(words[from:to], " ")) })
}

// ngrams takes the n-grams of a completion, of n tokens or words.
func (g *ngrams) ngrams(n int, sum func(from, to int) uint64) {
	for i := range g.total {
		for from := 0; from+i < n; from++ {
			g.total[i]++
			g.ngram(i, sum(from, from+i+1))
		}
	}
}

func (g *ngrams) ngram(i int, sum uint64) {
	if g.sketch[i] != nil {
		g.sketch[i].InsertHash(sum)
		return
	}
	if g.exact[i][sum] = struct{}{}; len(g.exact[i]) <= exactNgrams {
		return
	}
	g.sketch[i] = hyperloglog.New16()
	for sum := range g.exact[i] {
		g.sketch[i].InsertHash(sum)
	}
	g.exact[i] = nil
}

func (g *ngrams) distinct() Distinct {
	d := Distinct{Over: g.over, Of: g.total[0], Without: g.without}
	for i, total := range g.total {
		different := int64(len(g.exact[i]))
		if g.sketch[i] != nil {
			different, d.Estimated[i] = min(total, int64(g.sketch[i].Estimate())), true
		}
		if total > 0 {
			d.Share[i] = float64(different) / float64(total)
		}
	}
	return d
}
