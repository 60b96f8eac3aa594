package promptset

// Builder sets the fields of a row to what its file has, judges them, and notes the first thing wrong with the row.
type Builder struct {
	*Row
	made bool // Prompt is what a template made
	// promptParam is the member of a batch file's line that has the prompt, and inBody says that parameters are in the
	// body of one; empty and false for other rows.
	promptParam string
	inBody      bool
}
