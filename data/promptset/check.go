package promptset

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/setting"
)

// checkTemplate returns an error if a template needs a column that no file has.
func (r *Reader) checkTemplate() error {
	if r.mapping.Template == nil {
		return nil
	}
	var missing []string
	var first *Source
	for i := range r.sources {
		s := &r.sources[i]
		switch {
		case s.Rows == 0:
		case first == nil:
			missing, first = s.Lacks, s
		default:
			missing = slices.DeleteFunc(missing, func(name string) bool { return !slices.Contains(s.Lacks, name) })
		}
	}
	if first == nil {
		return nil
	}
	columns := slices.DeleteFunc(r.schema.Columns(), func(name string) bool { return name == record.MadeColumn })
	for _, own := range []string{record.MadeColumn, record.IDColumn} { // templates use these names
		if name, renamed := r.mapping.Renamed(own); renamed {
			if i := slices.Index(columns, name); i >= 0 {
				columns[i] = own
			}
		}
	}
	what := setting.Textf("`template` uses none of the columns, so that all prompts are equal")
	if len(missing) > 0 {
		what = setting.Textf("no column %q, which `template` uses", missing[0])
	} else if slices.ContainsFunc(r.mapping.Template.Uses(), func(name string) bool {
		return slices.Contains(columns, name)
	}) {
		return nil
	}
	meant := ""
	if len(missing) > 0 {
		if near := parameter.Nearest(missing[0], columns); near != "" {
			meant = fmt.Sprintf("; did you mean %q?", near)
		}
	}
	return &FileError{File: first.Name, Err: setting.Errorf("%s: there are %s%s", what,
		record.List(columns), meant), NoPrompts: true}
}

// CheckKept returns an error if an output of a shape cannot keep the input's folders.
func (r *Reader) CheckKept(shape completion.Shape) error {
	names := r.Partitions()
	if len(names) == 0 {
		return errors.New("is for inputs in folders such as lang=en, below a folder that is given as an input: these " +
			"have none")
	}
	for _, c := range shape.Columns() {
		if slices.Contains(names, c.Name) {
			return fmt.Errorf("would make folders %s=..., and the output has a column of its own of that name: rename "+
				"the folders", c.Name)
		}
	}
	for _, s := range r.sources {
		if below := s.FolderColumns(); below != "" && slices.ContainsFunc(folder.FoldersIn(below), folder.NoPartition) {
			return fmt.Errorf("would make the folder %s, and readers take no files out of folders whose names begin "+
				"with _ or a point: rename the folders of %s", below, s.Name)
		}
	}
	return nil
}

// checkPartitions rejects files whose columns do not follow from their names and from the names of the partition
// columns, by which they are opened again.
func (r *Reader) checkPartitions() error {
	again := Mapping{Partitions: r.Partitions()}
	if len(again.Partitions) == 0 {
		return nil
	}
	for _, s := range r.sources {
		if all, err := input.PartitionsOf(&again, "", s.Name); err != nil {
			return err
		} else if !slices.Equal(all, s.Partitions) {
			return &FileError{File: s.Name, What: "a folder above the input has the name of a column that folders " +
				"below it give; rename it"}
		}
	}
	return nil
}
