package promptset

import (
	"context"
	"encoding/json"
	"iter"
	"path"
	"slices"

	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/jsonl"
	"github.com/quire/quire/data/storage"
)

// columnsIn returns the columns that the folders of a path define.
func columnsIn(name string) (all []input.Partition) {
	dir, _ := path.Split(name)
	for _, name := range folder.FoldersIn(dir) {
		if p, ok := input.PartitionOf(name); ok {
			all = append(all, p)
		}
	}
	return all
}

// Values yields the values of some columns for each row of a part, or of any other Parquet or JSONL file: nil, bool,
// int64, float64 or string. A slice is valid until the next one. An error ends the iteration. Columns that the
// output's folders define are text.
func (o *Output) Values(ctx context.Context, part folder.Part, names []string) iter.Seq2[[]any, error] {
	given := make([]any, len(names)) // values from folders
	var rest []string                // names of columns in the file
	var places []int                 // their indices in names
	folders := columnsIn(part.Name)
	if _, single := o.place.(singleFile); single {
		folders = nil
	}
	for i, name := range names {
		index := slices.IndexFunc(folders, func(p input.Partition) bool { return p.Name == name })
		if index < 0 {
			rest, places = append(rest, name), append(places, i)
		} else if text := ""; folders[index].Value != "null" &&
			json.Unmarshal([]byte(folders[index].Value), &text) == nil {
			given[i] = text
		}
	}
	return func(yield func([]any, error) bool) {
		stopped := false
		err := func() error {
			in, err := o.place.Open(part.Name)
			if err != nil {
				return err
			}
			defer in.Close()
			read := jsonl.ReadValues
			if f := formatNamed(part.Format); f != nil {
				read = f.values
			}
			return read(storage.Path(part.Name), in, in.Size(), rest, func(values []any) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				for i, place := range places {
					given[place] = values[i]
				}
				if stopped = !yield(given, nil); stopped {
					return errStopped
				}
				return nil
			})
		}()
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}
