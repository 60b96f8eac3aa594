package engine

// Admission says how pages are reserved for sequences.
type Admission string

const (
	// Reserve admits a sequence when pages are there for the longest that it may become. Nothing is ever swapped out.
	Reserve Admission = "reserve"
	// Overcommit admits a sequence when pages are there for its prompt. Where pages run out, the sequences admitted
	// last are swapped out to the host's memory, and go on from there when others have ended, with the very same
	// tokens.
	Overcommit Admission = "overcommit"
)
