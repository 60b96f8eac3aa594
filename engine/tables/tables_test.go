package tables_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/tables"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// device is the tables as the device has them, by the names of its state.
type device struct {
	Pages     struct{ RefCounts, Ages []int32 }
	Sequences struct {
		SeqLens      []int32
		PageIndices  []int32
		Used         []bool
		CloneSources []int32
	}
	Queue struct {
		Tokens, SlotIDs, PosIDs []int32
		NumQueued               int32
	}
	Rows struct {
		Temperature                   []float32
		PromptLens, MaxLens, MaxPages []int32
	}
}

const (
	slots, prefixRows, contexts = 3, 2, 1
	rows                        = slots + prefixRows + contexts
	perRow, pageSize, numPages  = 3, 4, 12
)

func empty() *device {
	d := tree.Make[device](rows)
	d.Pages.RefCounts, d.Pages.Ages = make([]int32, numPages), make([]int32, numPages)
	d.Sequences.PageIndices = slices.Repeat([]int32{-1}, rows*perRow)
	d.Sequences.CloneSources = slices.Repeat([]int32{-1}, rows)
	for _, list := range []*[]int32{&d.Queue.Tokens, &d.Queue.SlotIDs, &d.Queue.PosIDs} {
		*list = slices.Repeat([]int32{-1}, slots)
	}
	return &d
}

// named is a request's name.
type named string

func (n named) RequestName() string { return string(n) }

func dump(d *device, host *schedule.View) *tables.Dump {
	head := tables.Head{Model: "m", Backend: "b", Slots: slots, FirstContext: slots + prefixRows, PageSize: pageSize}
	return tables.New(head, tree.Arrays(d), host)
}

// set gives a row a sequence.
func (d *device) set(row, length, source int, pages ...int32) {
	d.Sequences.Used[row], d.Sequences.SeqLens[row] = true, int32(length)
	d.Sequences.CloneSources[row] = int32(source)
	copy(d.Sequences.PageIndices[row*perRow:], pages)
	for _, p := range pages {
		d.Pages.RefCounts[p]++
	}
}

// A dump of a state that holds its rules says what is there, and contradicts nothing.
func TestDump(t *testing.T) {
	d := empty()
	d.set(3, 8, -1, 5, 2)
	d.set(0, 10, 3, 5, 2, 7)
	d.set(5, 1, -1, 0)
	d.Rows.PromptLens[0], d.Rows.MaxLens[0], d.Rows.MaxPages[0] = 9, 20, 5
	d.Queue.Tokens[0], d.Queue.SlotIDs[0], d.Queue.PosIDs[0], d.Queue.NumQueued = 77, 0, 10, 1
	d.Rows.Temperature[0] = float32(math.Inf(1))
	request := &schedule.Request{Tag: named("row \x1b[2J"), Tokens: make([]int32, 9), N: 4}
	got := dump(d, &schedule.View{
		Rows: []schedule.RowView{
			{Row: 0, Sequence: &schedule.SequenceView{Request: request, Generation: 2, Done: 10, Last: 77, Born: 1}},
			{Row: 1, Releasing: true}, {Row: 3, Tokens: 8, Done: 8, Opened: true}},
		Waiting: []schedule.WaitingView{{Request: request, Admitted: 1, Source: 3, Held: 8}},
		Swapped: []schedule.SequenceView{{Request: request, Generation: 1, Done: 5}}})
	if len(got.Contradictions) > 0 {
		t.Errorf("it contradicts itself: %q", got.Contradictions)
	}
	p := got.Pages
	if p.Free != 8 || p.Held != 4 || p.Shared != 2 || p.LargestCount != 2 || p.SumOfCounts != 6 || p.Reserved != 2 ||
		!slices.Equal(p.Most, []int{2, 5}) || !slices.Equal(p.Histogram, []tables.Count{{0, 8}, {1, 2}, {2, 2}}) {
		t.Errorf("the pages are %+v", p)
	}
	var text bytes.Buffer
	if err := got.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"reference counts: sum 6, largest 2 (pages 2 5)", "row 0: 10 tokens, 3 pages of 5 sure",
		`request "row \x1b[2J", generation 2: prompt 9, 10 in the cache, last token 77, admission 1`,
		"clone of row 3", "queued: token 77 at position 10", "pages (references) 5(2) 2(2) 7(1)",
		"host: ran 8 of 8 tokens", "contradictions: none", "contexts: 1 in use, 1 page",
		"to start from 8 tokens of row 3",
		"swapped out to the host: 1 completion", "host: to be freed by the next call", "Pages.Ages",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &text)
		}
	}
	encoded, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var back tables.Dump
	if err := json.Unmarshal(encoded, &back); err != nil || len(back.Rows) != len(got.Rows) {
		t.Errorf("read back there are %d rows (%v)", len(back.Rows), err)
	}
	if !strings.Contains(string(encoded), `"Pages.Ages"`) {
		t.Errorf("an array is not in %s", encoded)
	}
}

// Each way of being wrong is named.
func TestContradictions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(d *device)
		want   string
	}{
		"lost page": {func(d *device) { d.Pages.RefCounts[9] = 1 },
			"page 9 is lost: its count is 1, and no row has it"},
		"wrong count":   {func(d *device) { d.Pages.RefCounts[5] = 3 }, "page 5 has the count 3, and is in 1 rows"},
		"no such page":  {func(d *device) { d.Sequences.PageIndices[2] = 99 }, "row 0 has page 99"},
		"too few pages": {func(d *device) { d.Sequences.SeqLens[0] = 12 }, "row 0 has 2 pages for 12 tokens"},
		"unused row":    {func(d *device) { d.Sequences.Used[0] = false }, "row 0 is not used, and has 8 tokens"},
		"queue": {func(d *device) { d.Queue.NumQueued, d.Queue.SlotIDs[0] = 1, 2 },
			"token of row 2, which is not used"},
		"overcommitment": {func(d *device) { d.Rows.MaxPages[0] = 20 }, "8 pages more are reserved than are free"},
	} {
		d := empty()
		d.set(0, 8, -1, 5, 2)
		c.change(d)
		if got := dump(d, nil).Contradictions; len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	d := empty()
	d.set(0, 8, -1, 5, 2)
	q := &schedule.SequenceView{Request: &schedule.Request{Tag: named("a")}, Done: 7}
	view := &schedule.View{Rows: []schedule.RowView{{Row: 0, Sequence: q}, {Row: 1, Sequence: q}}}
	got := dump(d, view).Contradictions
	if want := []string{"row 0 has 8 tokens on the device, and 7 for the host",
		"the host uses row 1, and the device does not"}; !slices.Equal(got, want) {
		t.Errorf("device and host: %q, want %q", got, want)
	}
}

// Where the device's arrays are lost, a dump has what the host knows.
func TestLost(t *testing.T) {
	q := &schedule.SequenceView{Request: &schedule.Request{Tag: named("a")}, Done: 7}
	d := tables.New(tables.Head{Slots: slots, Lost: "the device is gone"}, nil,
		&schedule.View{Rows: []schedule.RowView{{Row: 1, Sequence: q}}})
	var text bytes.Buffer
	if err := d.WriteText(&text); err != nil || len(d.Contradictions) > 0 || len(d.Rows) != 1 ||
		!strings.Contains(text.String(), "the device's arrays are missing: the device is gone") {
		t.Errorf("%v, %q:\n%s", err, d.Contradictions, &text)
	}
}

// Whatever the tables do by their rules, a dump says the same as their plain-Go twin, and finds nothing wrong.
func TestDumpOfRandomTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sequences, pages := seqtable.NewHost(rows, perRow, pageSize), pagetable.NewHost(numPages)
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			mask := make([]bool, rows)
			mask[rapid.IntRange(0, rows-1).Draw(t, "row")] = true
			row := slices.Index(mask, true)
			switch {
			case !sequences.Rows[row].Used:
				_ = sequences.Open(mask)
			case rapid.Bool().Draw(t, "release"):
				_ = sequences.Release(pages, mask, nil)
			default:
				_, _ = sequences.Allocate(pages, []tokenqueue.Entry{{Slot: int32(row),
					Pos: int32(sequences.Rows[row].Len)}}, rows)
			}
		}
		d := empty()
		copy(d.Pages.RefCounts, pages.RefCounts)
		used, held := 0, 0
		for i, r := range sequences.Rows {
			d.Sequences.Used[i], d.Sequences.SeqLens[i] = r.Used, int32(r.Len)
			d.Sequences.CloneSources[i] = r.Source
			copy(d.Sequences.PageIndices[i*perRow:], r.Pages)
			if r.Used {
				used, held = used+1, held+len(r.Pages)
			}
		}
		got := dump(d, nil)
		if len(got.Contradictions) > 0 || got.Pages.Free != pages.NumFree() || len(got.Rows) != used ||
			got.Pages.SumOfCounts != held {
			t.Errorf("%+v of %+v and %+v", got, sequences, pages)
		}
	})
}
