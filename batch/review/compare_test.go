package review

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func compare(t rapid.TB, a, b *Output, most int) (*Comparison, []*Difference) {
	t.Helper()
	c, err := Compare(context.Background(), a, b, most, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []*Difference
	for d, err := range c.Differences(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return c, all
}

// Rows with one id twice are told apart by their order, and completions that moved are the same.
func TestCompare(t *testing.T) {
	a := output(t, [3]any{"a", 0, "x"}, [3]any{"a", 0, "y"}, [3]any{"b", 0, "z"}, [3]any{"b", 1, "z2"},
		[3]any{"c", 0, ""})
	b := output(t, [3]any{"c", 0, ""}, [3]any{"a", 0, "x"}, [3]any{"b", 0, "z"}, [3]any{"a", 0, "Y"},
		[3]any{"d", 0, "new"})
	c, all := compare(t, a, b, 0)
	if c.Same != 3 || c.Different != 1 || c.OnlyA != 1 || c.OnlyB != 1 || len(all) != 3 {
		t.Fatalf("%+v %v", c, all)
	}
	if d := all[0]; d.A.ID != "a" || d.A.Completions[0].Text != "y" || d.B.Completions[0].Text != "Y" {
		t.Errorf("%+v", d)
	}
	if d := all[1]; d.A.ID != "b" || !slices.Equal(d.Generations, []int{1}) || len(d.B.Completions) != 1 {
		t.Errorf("%+v", d)
	}
	if d := all[2]; d.A != nil || d.B.ID != "d" || d.B.Completions[0].Text != "new" {
		t.Errorf("%+v", d)
	}
	if few, some := compare(t, a, b, 1); len(some) != 1 || few.OnlyB != 1 || some[0].A.Completions[0].Text != "y" {
		t.Errorf("%+v %v", few, some)
	}
	only := func(row *Row) bool { return row.ID == "b" }
	c, err := Compare(t.Context(), a, b, 0, only)
	if err != nil || c.Same != 1 || c.OnlyA != 1 || c.OnlyB != 0 {
		t.Errorf("%+v %v", c, err)
	}
}

// Any two outputs compare as maps of their completions do, however few rows may wait.
func TestCompareIsThatOfMaps(t *testing.T) {
	was := mostWaiting
	defer func() { mostWaiting = was }()
	rapid.Check(t, func(t *rapid.T) {
		mostWaiting = rapid.SampledFrom([]int{4, 12, 1000}).Draw(t, "may wait")
		var outs [2]*Output
		var texts [2]map[string]string
		for side := range outs {
			ids := rapid.SliceOfNDistinct(rapid.IntRange(0, 20), 0, 15, rapid.ID).Draw(t, "ids")
			var rows [][3]any
			texts[side] = map[string]string{}
			for _, id := range ids {
				for g := range rapid.IntRange(1, 3).Draw(t, "n") {
					text := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "text")
					rows = append(rows, [3]any{fmt.Sprint(id), g, text})
					texts[side][fmt.Sprint(id, " ", g)] = text
				}
			}
			folder, err := os.MkdirTemp("", "compare")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(folder)
			if outs[side], err = writeRows(folder, rows); err != nil {
				t.Fatal(err)
			}
			if len(rows) == 0 {
				outs[side].Parts = nil
			}
		}
		var want Comparison
		for k, text := range texts[0] {
			switch other, both := texts[1][k]; {
			case !both:
				want.OnlyA++
			case other == text:
				want.Same++
			default:
				want.Different++
			}
		}
		for k := range texts[1] {
			if _, both := texts[0][k]; !both {
				want.OnlyB++
			}
		}
		most := rapid.IntRange(0, 5).Draw(t, "most")
		got, rows := compare(t, outs[0], outs[1], most)
		if got.Same != want.Same || got.Different != want.Different || got.OnlyA != want.OnlyA ||
			got.OnlyB != want.OnlyB {
			t.Fatalf("%+v, want %+v", got, want)
		}
		differ := 0
		for _, d := range rows {
			if d.A != nil && d.B != nil && d.A.ID != d.B.ID {
				t.Fatalf("%+v", d)
			}
			differ += len(d.Generations)
		}
		if most > 0 && len(rows) > most || most == 0 && int64(differ) != want.Different+want.OnlyA+want.OnlyB {
			t.Fatalf("%d rows, %d completions", len(rows), differ)
		}
	})
}

// Outputs of one order need no memory for each other.
func TestCompareSideBySide(t *testing.T) {
	was := mostWaiting
	defer func() { mostWaiting = was }()
	mostWaiting = 1
	var rows, longer [][3]any
	for i := range 500 {
		rows = append(rows, [3]any{fmt.Sprint(i), 0, "x"})
		longer = append(longer, [3]any{fmt.Sprint(i), 0, "x"}, [3]any{fmt.Sprint(i), 1, "x"})
	}
	for i := range 500 {
		longer = append(longer, [3]any{fmt.Sprint("more ", i), 0, "x"})
	}
	c := &Comparison{a: output(t, rows...), b: output(t, longer...)}
	err := c.pass(t.Context(), 3, func(key) bool { return true }, true)
	if err != nil || c.OnlyB != 1000 || c.Same != 500 {
		t.Errorf("%+v %v", c, err)
	}
}
