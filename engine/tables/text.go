package tables

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

// WriteText writes the dump for people.
func (d *Dump) WriteText(w io.Writer) error {
	t := &text{}
	t.line("tables of replica %d after %s, %s", d.Replica, plural.Count(int(d.Calls), "call"),
		d.Time.UTC().Format("2006-01-02T15:04:05.000Z"))
	t.line("%s on %s", visible.Line(d.Model), visible.Line(d.Backend))
	if d.Fault != "" {
		t.line("fault: %s", visible.Line(d.Fault))
	}
	if d.Lost != "" {
		t.line("the device's arrays are missing: %s", visible.Line(d.Lost))
	} else {
		d.writePages(t)
	}
	t.section("contradictions: %s", cmp.Or(noneIf(len(d.Contradictions) == 0), fmt.Sprint(len(d.Contradictions))))
	for _, c := range d.Contradictions {
		t.line("  %s", c)
	}
	for _, kind := range []string{Slot, Prefix, Context} {
		d.writeRows(t, kind)
	}
	t.section("queue: %s", cmp.Or(noneIf(len(d.Queue) == 0), plural.Count(len(d.Queue), "token")))
	if len(d.Queue) > 0 {
		t.line("  %6s %8s %6s %9s", "place", "token", "row", "position")
	}
	for _, q := range d.Queue {
		t.line("  %6d %8d %6d %9d", q.Place, q.Token, q.Row, q.Position)
	}
	d.writeHost(t)
	d.writeArrays(t)
	_, err := io.WriteString(w, t.String())
	return err
}

type text struct{ strings.Builder }

func (t *text) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

func (t *text) section(format string, args ...any) {
	t.line("")
	t.line(format, args...)
}

func noneIf(none bool) string {
	if none {
		return "none"
	}
	return ""
}

func (d *Dump) writePages(t *text) {
	p := d.Pages
	t.section("pages: %d of %s", p.Pages, plural.Count(d.PageSize, "token"))
	t.line("  free %d, of which %d are reserved for rows that do not hold them yet", p.Free, p.Reserved)
	t.line("  held %d, of which %d more than once", p.Held, p.Shared)
	t.line("  reference counts: sum %d, largest %d%s", p.SumOfCounts, p.LargestCount, ofPages(p.Most))
	t.line("  %10s %10s", "references", "pages")
	for _, c := range p.Histogram {
		t.line("  %10d %10d", c.References, c.Pages)
	}
}

func ofPages(pages []int) string {
	if len(pages) == 0 {
		return ""
	}
	list := strings.Trim(fmt.Sprint(pages), "[]")
	if len(pages) == most {
		list += " ..."
	}
	return " (" + plural.Noun(len(pages), "page") + " " + list + ")"
}

// writeRows writes the rows of one kind, with their pages in order and the reference count of each.
func (d *Dump) writeRows(t *text, kind string) {
	var rows []Row
	pages := 0
	for _, r := range d.Rows {
		if r.Kind == kind {
			rows, pages = append(rows, r), pages+len(r.Pages)
		}
	}
	name := map[string]string{Slot: "slots", Prefix: "prefix rows", Context: "contexts"}[kind]
	if len(rows) == 0 {
		t.section("%s: none in use", name)
		return
	}
	t.section("%s: %d in use, %s", name, len(rows), plural.Count(pages, "page"))
	for _, r := range rows {
		state := ""
		if !r.Used {
			state = ", not used by the device"
		}
		t.line("  row %d: %s, %s of %d sure%s", r.Row, plural.Count(r.Length, "token"),
			plural.Count(len(r.Pages), "page"), r.Sure, state)
		if kind == Slot {
			t.line("    prompt %d, ends at %d", r.PromptLen, r.MaxLen)
		}
		if q := r.Sequence; q != nil {
			t.line("    request %q, generation %d: prompt %d, %d in the cache, last token %d, admission %d",
				q.Request, q.Generation, q.Prompt, q.Done, q.Last, q.Admission)
		}
		if r.CloneOf != nil {
			t.line("    clone of row %d", *r.CloneOf)
		}
		if r.QueuedAt != nil {
			t.line("    queued: token %d at position %d", *r.QueuedNext, *r.QueuedAt)
		}
		if r.Host != "" {
			t.line("    host: %s", r.Host)
		}
		t.list("pages (references)", len(r.Pages), func(i int) string {
			return fmt.Sprintf("%d(%d)", r.Pages[i].Page, r.Pages[i].References)
		})
	}
}

// list writes things of a row, some on each line.
func (t *text) list(name string, n int, item func(i int) string) {
	const perLine = 16
	for i := 0; i < n; i += perLine {
		head := name
		if i > 0 {
			head = strings.Repeat(" ", len(name))
		}
		var items []string
		for k := i; k < min(n, i+perLine); k++ {
			items = append(items, item(k))
		}
		t.line("    %s %s", head, strings.Join(items, " "))
	}
}

func (d *Dump) writeHost(t *text) {
	if len(d.Waiting) > 0 {
		t.section("waiting on the host: %s", plural.Count(len(d.Waiting), "request"))
	}
	for _, w := range d.Waiting {
		from := ""
		if w.Source != nil {
			from = fmt.Sprintf(", to start from %s of row %d", plural.Count(w.Held, "token"), *w.Source)
		}
		t.line("  request %q: prompt %d, %d of %s admitted%s", w.Request, w.Prompt, w.Admitted,
			plural.Count(w.Completions, "completion"), from)
	}
	if len(d.SwappedOut) > 0 {
		t.section("swapped out to the host: %s", plural.Count(len(d.SwappedOut), "completion"))
	}
	for _, q := range d.SwappedOut {
		t.line("  request %q, generation %d: prompt %d, %d tokens, last token %d, admission %d",
			q.Request, q.Generation, q.Prompt, q.Done, q.Last, q.Admission)
	}
}

// shown are the arrays whose values the text has.
var shown = map[string]bool{"Pages.RefCounts": true, "Sequences.SeqLens": true, "Sequences.PageIndices": true,
	"Sequences.Used": true, "Sequences.CloneSources": true, "Queue.Tokens": true, "Queue.SlotIDs": true,
	"Queue.PosIDs": true, "Queue.NumQueued": true, "Rows.PromptLens": true, "Rows.MaxLens": true,
	"Rows.MaxPages": true}

// writeArrays names the arrays that are in the machine's form of the dump only.
func (d *Dump) writeArrays(t *text) {
	if len(d.Arrays) == 0 {
		return
	}
	t.section("arrays that only the JSON form shows")
	for _, a := range d.Arrays {
		if !shown[a.Name] {
			t.line("  %-28s %v %s", a.Name, a.Dims, summary(a.Values))
		}
	}
}

// summary describes the kind of numbers in an array.
func summary(values any) string {
	ints, ok := values.([]int32)
	if !ok || len(ints) == 0 {
		return fmt.Sprintf("%T", values)
	}
	least, largest, zeros := ints[0], ints[0], 0
	for _, v := range ints {
		least, largest = min(least, v), max(largest, v)
		if v == 0 {
			zeros++
		}
	}
	return fmt.Sprintf("%d to %d, %d of %d are 0", least, largest, zeros, len(ints))
}
