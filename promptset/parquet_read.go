package promptset

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// groups are the row groups of the file.
func (pf *parquetFile) groups() (all []group) {
	for i, g := range pf.file.RowGroups() {
		all = append(all, group{what: fmt.Sprintf("row group %d", i), rows: g.NumRows(),
			open: func(from int64) (rowReader, error) {
				if err := checkPages(pf.input, pf.size, &pf.file.Metadata().RowGroups[i]); err != nil {
					return nil, err
				}
				return openRows(g, from)
			}})
	}
	return all
}

func openRows(group parquet.RowGroup, skip int64) (rows parquet.Rows, err error) {
	defer guard(&err)
	rows = group.Rows()
	if skip > 0 {
		if err := rows.SeekToRow(skip); err != nil {
			rows.Close()
			return nil, err
		}
	}
	return rows, nil
}

func readRows(rows rowReader, buffer []parquet.Row) (n int, err error) {
	defer guard(&err)
	return rows.ReadRows(buffer)
}

// eachRow gives the rows of a row group to each; a row is valid until the next. So many are read at once.
func eachRow(group parquet.RowGroup, atOnce int, each func(parquet.Row) error) error {
	rows, err := openRows(group, 0)
	if err != nil {
		return err
	}
	defer rows.Close()
	buffer := make([]parquet.Row, atOnce)
	for left := group.NumRows(); left > 0; {
		n, err := readRows(rows, buffer)
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
