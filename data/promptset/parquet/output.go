package parquet

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/data/promptset/table"
)

// ReadPart calls each for every row of a Parquet part from a row on, and returns the footer's metadata.
func ReadPart(in io.ReaderAt, size, from int64, each func(*completion.Completion) error) (meta map[string]string,
	err error) {
	file, root, err := OpenFooter(in, size)
	if err != nil {
		return nil, err
	}
	meta = metaOf(file)
	has := func(name string) bool { return root.Field(name) != nil }
	if err := completion.CheckColumns(has, "it has no column %s"); err != nil {
		return meta, err
	}
	columns, err := completion.ResultColumns(root)
	if err != nil {
		return meta, err
	}
	prompts := table.NewPromptReader(root)
	for i, group := range file.RowGroups() {
		skip := min(from, group.NumRows())
		if from -= skip; skip > 0 && skip == group.NumRows() {
			continue
		}
		err := checkPages(in, size, &file.Metadata().RowGroups[i])
		if err == nil {
			err = readGroup(group, skip, columns, prompts, func(c *completion.Completion) error {
				c.Columns = root
				return each(c)
			})
		}
		if err != nil {
			return meta, fmt.Errorf("row group %d: %w", i, err)
		}
	}
	return meta, nil
}

// ReadMeta reads the metadata of a file.
func ReadMeta(in io.ReaderAt, size int64) (map[string]string, error) {
	file, _, err := OpenFooter(in, size)
	if err != nil {
		return nil, err
	}
	return metaOf(file), nil
}

// metaOf returns the metadata in a footer, without a description of the columns.
func metaOf(file *parquet.File) map[string]string {
	meta := map[string]string{}
	for _, kv := range file.Metadata().KeyValueMetadata {
		meta[kv.Key] = kv.Value
	}
	delete(meta, arrowKey)
	return meta
}

// readGroup calls each for every row of a row group but the first ones.
func readGroup(group parquet.RowGroup, skip int64, columns []*completion.Column, prompts *table.PromptReader,
	each func(*completion.Completion) error) error {
	return eachRow(group, skip, 16, func(values parquet.Row) error {
		id, r := completion.ResultOfRow(values, columns)
		prompt := func(column string) string { return prompts.Of(values, column) }
		return each(&completion.Completion{ID: id, Result: *r, ReadPrompt: prompt, Values: values})
	})
}

// eachRow calls each for every row of a row group but the first ones; a row is valid until the next. atOnce rows are
// read together.
func eachRow(group parquet.RowGroup, skip int64, atOnce int, each func(parquet.Row) error) error {
	rows, err := openRows(group, skip)
	if err != nil {
		return err
	}
	defer rows.Close()
	buffer := make([]parquet.Row, atOnce)
	for left := group.NumRows() - skip; left > 0; {
		n, err := table.ReadRows(rows, buffer)
		for _, row := range buffer[:min(int64(n), left)] {
			if err := each(row); err != nil {
				return err
			}
			left--
		}
		if left > 0 && n == 0 && err == nil {
			err = io.ErrNoProgress
		}
		if left > 0 && err != nil {
			return fmt.Errorf("it ends %d rows early: %w", left, err)
		}
	}
	return nil
}

// ReadValues calls each with the values of columns, for every row.
func ReadValues(_ string, in io.ReaderAt, size int64, names []string, each func([]any) error) error {
	file, root, err := OpenFooter(in, size)
	if err != nil {
		return err
	}
	places := map[int]int{} // index in names, by leaf
	for i, name := range names {
		n := root.Field(name)
		switch {
		case n == nil:
			return fmt.Errorf("it has no column %s", name)
		case !n.IsLeaf || n.Rep == schema.Repeated || !isScalar(n.Type):
			return fmt.Errorf("its column %s is %s", name, n.Describe())
		}
		places[n.Column] = i
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

// isScalar reports whether values of a leaf have one Go type.
func isScalar(t parquet.Type) bool {
	switch t.Kind() {
	case parquet.Boolean, parquet.Float, parquet.Double, parquet.ByteArray:
		return true
	case parquet.Int32, parquet.Int64:
		_, whole := schema.Integer(t)
		return whole || t.LogicalType() == nil
	}
	return false
}

func valuesOfGroup(group parquet.RowGroup, places map[int]int, values []any, each func([]any) error) error {
	return eachRow(group, 0, 64, func(row parquet.Row) error {
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
