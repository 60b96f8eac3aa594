package table

import (
	"github.com/parquet-go/parquet-go"
)

func ReadRows(rows RowReader, buffer []parquet.Row) (n int, err error) {
	defer Guard(&err)
	return rows.ReadRows(buffer)
}
