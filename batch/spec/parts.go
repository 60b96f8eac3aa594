package spec

import (
	"cmp"
	"slices"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/folder"
)

const (
	// partCompletions is about how many completions a part has, unless --part-rows reports how many rows.
	partCompletions = 16_384
	// maxParts keeps the names of parts in order; parts of larger jobs are larger.
	maxParts = 50_000
)

// Parts cuts the job into parts: what is asked for, or about as many rows as make partCompletions.
func (j *Job) Parts(rows int64) folder.Parts {
	if j.Limit > 0 {
		rows = min(j.Limit, rows)
	}
	size := cmp.Or(j.PartRows, j.CutRows)
	if size == 0 {
		size = max(1, int64(partCompletions/j.Sampling.N), (rows+maxParts-1)/maxParts)
	}
	return folder.Parts{Rows: rows, PartRows: size}
}

// InFolders has parts lie in folders as the rows of inputs do.
func InFolders(parts folder.Parts, inputs []jobstate.Input) folder.Parts {
	folders, rows := make([]string, len(inputs)), make([]int64, len(inputs))
	for i, in := range inputs {
		folders[i], rows[i] = in.Columns, in.Rows
	}
	return parts.In(folders, rows)
}

// PartsOf is how a job cuts its rows into parts, and in which format it writes them; ok is false if it does not say.
func PartsOf(job *jobstate.Description) (parts folder.Parts, format string, ok bool) {
	s, ok := settingsOf(job)
	parts = folder.Parts{Rows: s.Rows, PartRows: s.PartRows}
	ok = ok && slices.Contains(promptset.Formats(), s.Format) && parts.Rows >= 0 && parts.PartRows >= 1
	if ok && s.Folders {
		parts = InFolders(parts, job.Inputs)
	}
	return parts, s.Format, ok
}
