package linear

// Widened is the format with rows of so many numbers.
func (f Format) Widened(width int) Format {
	f.width = width
	return f
}

// Sliced is the format with slices of so many rows.
func (f Format) Sliced(rows int) Format {
	f.slice = rows
	return f
}
