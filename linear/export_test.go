package linear

// Sliced is the format with slices of so many rows.
func (f Format) Sliced(rows int) Format {
	f.slice = rows
	return f
}
