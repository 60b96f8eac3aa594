package review

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/vfs"
)

// Snapshot writes the parts that the journal adds completions to, with what they have already, to a new folder, as part
// files with the names, the format and the columns of the job's own. It returns their number.
func (o *Output) Snapshot(ctx context.Context, files vfs.FS, dir string) (written int, err error) {
	if err := files.MkdirAll(dir); err != nil {
		return 0, fmt.Errorf("cannot make the folder of the snapshot: %w", err)
	}
	if names, err := files.List(dir); err != nil || len(names) > 0 {
		return 0, errors.Join(fmt.Errorf("%s is not an empty folder: give a new one for the snapshot", dir), err)
	}
	b := o.running
	if b == nil || len(b.entries) == 0 {
		return 0, nil
	}
	switch {
	case b.input == nil:
		return 0, fmt.Errorf("the rows in the journal of %s are known by their numbers alone, for the input is not "+
			"what it was: %s", o.Path, b.WithoutInput)
	case b.format == promptset.FormatOpenAI:
		return 0, fmt.Errorf(`%s has the format openai, whose lines need the model: there is no snapshot of it, and `+
			`"sample show" prints what there is`, o.Path)
	}
	to, err := folder.NewLocal(files, dir)
	if err != nil {
		return 0, err
	}
	options := promptset.WriterOptions{Format: b.format, Schema: b.input.Schema(), Meta: b.job.Meta, Write: []int{0},
		Shape: spec.ShapeOfStarted(b.job, b.input.Schema())}
	for _, part := range o.all() {
		if !b.adds(part.Number) {
			continue
		}
		there := func(func(*promptset.Completion, error) bool) {}
		if part.Name != "" {
			there = o.Output.Rows(ctx, part)
		}
		if err := b.writePart(ctx, to, part, there, options); err != nil {
			return written, err
		}
		written++
	}
	return written, nil
}

// writePart writes a part of the rows that there are completions of, in the part that is there or in the journal.
func (b *runningJob) writePart(ctx context.Context, to folder.Destination, part folder.Part,
	there iter.Seq2[*promptset.Completion, error], options promptset.WriterOptions) error {
	old, stop := readOld(there)
	defer stop()
	var rows []*promptset.Row
	var all [][]promptset.Result
	for row, err := range b.each(ctx, part.Number) {
		var results []promptset.Result
		if err == nil {
			results, err = b.together(row, old)
		}
		if err != nil {
			return err
		}
		if len(results) > 0 {
			placed := *row
			placed.Index = int64(len(rows))
			rows, all = append(rows, &placed), append(all, results)
		}
	}
	options.Parts = folder.Parts{Rows: int64(len(rows)), PartRows: int64(len(rows))}
	w, err := promptset.NewWriter(onePart{to, b.parts.Name(part.Number, b.format)}, options)
	if err != nil {
		return err
	}
	for i, row := range rows {
		if err := w.Add(row, all[i]); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return w.Close()
}

// onePart is a place whose part has a name of its own.
type onePart struct {
	folder.Destination
	name string
}

func (p onePart) Create(name string) (folder.Unpublished, error) {
	if name != folder.MetaName {
		name = p.name
	}
	return p.Destination.Create(name)
}
