package report

import (
	"hash/maphash"
	"slices"
	"strings"
)

// Bounds of what the page shows.
const (
	randomRows = 12   // rows that stand for all
	otherRows  = 6    // rows of each other kind
	rowTexts   = 4    // completions of a row
	textRunes  = 1500 // characters of each text
)

// row is a row of the input whose completions are being added.
type row struct {
	id, prompt        string
	promptTokens      int
	last, count       int
	first             []Completion // the first completions
	longest, shortest *Completion  // nil for none without an error
	failed            *Completion
	texts             map[uint64]int // how often each text came
	twice             *Completion    // one with the text of an earlier one
	place             int64
}

func newRow(c *Completion) *row {
	return &row{id: c.ID, prompt: cut(c.Prompt), promptTokens: c.PromptTokens, texts: map[uint64]int{}}
}

var textSeed = maphash.MakeSeed()

func (r *row) add(c *Completion) {
	r.last, r.count = c.Generation, r.count+1
	kept := *c
	kept.Text, kept.Err = cut(c.Text), cut(c.Err)
	if len(r.first) < rowTexts {
		r.first = append(r.first, kept)
	}
	if c.Err != "" {
		if r.failed == nil {
			r.failed = &kept
		}
		return
	}
	if r.longest == nil || c.CompletionTokens > r.longest.CompletionTokens {
		r.longest = &kept
	}
	if r.shortest == nil || c.CompletionTokens < r.shortest.CompletionTokens {
		r.shortest = &kept
	}
	sum := maphash.String(textSeed, c.Text)
	if r.texts[sum]++; r.texts[sum] == 2 && r.twice == nil {
		r.twice = &kept
	}
}

// equals counts the rows with several completions, the rows in which all are equal, and in the others the completions
// that repeat a text.
type equals struct {
	rows, rowsOfOne, completions int64
}

func (e *equals) add(r *row) {
	total := 0
	equal := 0
	for _, n := range r.texts {
		total += n
		if n > 1 {
			equal += n
		}
	}
	if total < 2 {
		return
	}
	if e.rows++; len(r.texts) == 1 {
		e.rowsOfOne++
	} else {
		e.completions += int64(equal)
	}
}

// card is a row as it is shown.
type card struct {
	ID, Prompt   string
	PromptTokens int
	Texts        []Completion
	More         int
	place        int64
	rank         int
}

func (r *row) card(texts ...Completion) *card {
	return &card{ID: r.id, Prompt: r.prompt, PromptTokens: r.promptTokens, Texts: texts, More: r.count - len(texts),
		place: r.place}
}

// chosen are the rows that are shown.
type chosen struct {
	rows                                       int64
	random, longest, shortest, failed, repeats []*card
	numbers                                    uint64
}

func (c *chosen) add(r *row) {
	c.rows++
	r.place = c.rows
	// Of all rows each is shown with the same chance, by reservoir sampling with numbers that are the same every time.
	if len(c.random) < randomRows {
		c.random = append(c.random, r.card(r.first...))
	} else {
		c.numbers = c.numbers*6364136223846793005 + 1442695040888963407
		if index := (c.numbers >> 33) % uint64(c.rows); index < randomRows {
			c.random[index] = r.card(r.first...)
		}
	}
	if r.longest != nil {
		c.longest = best(c.longest, r.card(*r.longest), -r.longest.CompletionTokens)
		c.shortest = best(c.shortest, r.card(*r.shortest), r.shortest.CompletionTokens)
	}
	if r.failed != nil && len(c.failed) < otherRows {
		c.failed = append(c.failed, r.card(*r.failed))
	}
	if r.twice != nil && len(c.repeats) < otherRows {
		c.repeats = append(c.repeats, r.card(*r.twice))
	}
}

// best keeps the rows with the least rank, the first of equal ones.
func best(all []*card, c *card, rank int) []*card {
	c.rank = rank
	index, _ := slices.BinarySearchFunc(all, rank, func(a *card, rank int) int {
		if a.rank <= rank {
			return -1
		}
		return 1
	})
	if index == otherRows {
		return all
	}
	all = slices.Insert(all, index, c)
	return all[:min(len(all), otherRows)]
}

// group is a choice of rows.
type group struct {
	Name, Title string
	Cards       []*card
}

// groups returns the choices that have rows. Longest and shortest rows are included if they are not all rows.
func (c *chosen) groups() (all []group) {
	random := slices.Clone(c.random)
	slices.SortFunc(random, func(a, b *card) int { return int(a.place - b.place) })
	title := "all"
	if c.rows > randomRows {
		title = "random"
	}
	all = []group{{"random", title, random}}
	if c.rows > otherRows {
		all = append(all, group{"longest", "longest", c.longest}, group{"shortest", "shortest", c.shortest})
	}
	all = append(all, group{"failed", "errors", c.failed}, group{"equal", "duplicates", c.repeats})
	return slices.DeleteFunc(all, func(g group) bool { return len(g.Cards) == 0 })
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func cut(s string) string {
	if len(s) <= textRunes {
		return strings.Clone(s)
	}
	n := 0
	for i := range s {
		if n++; n > textRunes {
			return s[:i] + " …"
		}
	}
	return strings.Clone(s)
}
