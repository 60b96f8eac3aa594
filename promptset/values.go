package promptset

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/storage"
)

// Values gives the values of some columns of each row of a part, or of any other Parquet or JSONL file: nil, bool,
// int64, float64 or string. A slice is valid until the next one. An error ends them. Columns that folders of the output
// give are text.
func (o *Output) Values(ctx context.Context, part Part, names []string) iter.Seq2[[]any, error] {
	given := make([]any, len(names)) // by folders
	var rest []string                // in the file
	var places []int                 // of the rest in names
	folders := columnsIn(part.Name)
	if _, single := o.place.(singleFile); single {
		folders = nil
	}
	for i, name := range names {
		at := slices.IndexFunc(folders, func(p Partition) bool { return p.name == name })
		if at < 0 {
			rest, places = append(rest, name), append(places, i)
		} else if text := ""; folders[at].value != "null" && json.Unmarshal([]byte(folders[at].value), &text) == nil {
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
			read := jsonValues
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

// jsonValues gives the values of keys of each line.
func jsonValues(name string, in io.ReaderAt, size int64, names []string, each func([]any) error) error {
	l, err := OpenLines(name, io.NewSectionReader(in, 0, size))
	if err != nil {
		return err
	}
	defer l.Close()
	values := make([]any, len(names))
	for {
		line, err := l.Next()
		if err == io.EOF {
			return nil
		}
		var all []member
		if err == nil {
			all, err = members(line)
		}
		for i := 0; i < len(names) && err == nil; i++ {
			if raw := valueOf(all, names[i]); raw == nil {
				err = fmt.Errorf("it has no key %s", names[i])
			} else {
				values[i], err = scalarOf(names[i], raw)
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", l.number, err)
		}
		if err := each(values); err != nil {
			return err
		}
	}
}

func scalarOf(name string, raw json.RawMessage) (any, error) {
	switch raw[0] {
	case 'n':
		return nil, nil
	case 't', 'f':
		return raw[0] == 't', nil
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '{', '[':
		return nil, fmt.Errorf("%s is %s", name, kindJSON(raw))
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return nil, fmt.Errorf("%s is %s, which is no number that fits", name, raw)
	}
	return f, nil
}

// parquetValues gives the values of columns of each row.
func parquetValues(_ string, in io.ReaderAt, size int64, names []string, each func([]any) error) error {
	file, root, err := openFooter(in, size)
	if err != nil {
		return err
	}
	places := map[int]int{} // in names, by leaf
	for i, name := range names {
		n := root.field(name)
		switch {
		case n == nil:
			return fmt.Errorf("it has no column %s", name)
		case !n.leaf || n.rep == repeated || !isScalar(n.typ):
			return fmt.Errorf("its column %s is %s", name, n.describe())
		}
		places[n.column] = i
	}
	for i, group := range file.RowGroups() {
		err := checkPages(in, size, &file.Metadata().RowGroups[i])
		if err == nil {
			err = valuesOfGroup(group, places, make([]any, len(names)), each)
		}
		if err != nil {
			return fmt.Errorf("row group %d: %w", i, err)
		}
	}
	return nil
}

// isScalar says whether values of a leaf are those of one kind of Go.
func isScalar(t parquet.Type) bool {
	switch t.Kind() {
	case parquet.Boolean, parquet.Float, parquet.Double, parquet.ByteArray:
		return true
	case parquet.Int32, parquet.Int64:
		_, whole := integer(t)
		return whole || t.LogicalType() == nil
	}
	return false
}

func valuesOfGroup(group parquet.RowGroup, places map[int]int, values []any, each func([]any) error) error {
	return eachRow(group, 64, func(row parquet.Row) error {
		for _, v := range row {
			if i, ok := places[v.Column()]; ok {
				values[i] = valueOfParquet(v)
			}
		}
		return each(values)
	})
}

func valueOfParquet(v parquet.Value) any {
	if v.IsNull() {
		return nil
	}
	switch v.Kind() {
	case parquet.Boolean:
		return v.Boolean()
	case parquet.Int32:
		return int64(v.Int32())
	case parquet.Int64:
		return v.Int64()
	case parquet.Float:
		return float64(v.Float())
	case parquet.Double:
		return v.Double()
	}
	return string(v.ByteArray())
}
