package verify

import (
	"maps"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/internal/plural"
)

// Report is what was found; "sample verify --json" prints it.
type Report struct {
	Output    string    `json:"output"`
	Status    string    `json:"status"`              // whole, unfinished or damaged
	Parts     int       `json:"parts"`               // of the job; 0 if it is not known
	Whole     int       `json:"parts_whole"`         // that are there, with nothing wrong
	Missing   []string  `json:"parts_missing"`       // names
	Later     int       `json:"parts_unread"`        // that appeared while others were read
	Unchecked bool      `json:"without_digests"`     // some parts were written by a version that noted no digests
	Rows      int64     `json:"rows"`                // of the output, in the parts that were read
	Done      int64     `json:"completions"`         // good ones of them
	Bytes     int64     `json:"bytes"`               // of these parts
	Journaled int64     `json:"journal_completions"` // in the journal on this machine
	Inputs    string    `json:"inputs"`              // compared, or not compared: why
	Problems  []Problem `json:"problems"`
	Notes     []string  `json:"notes"` // what is no problem

	unchecked int
}

// Problem is one thing that is wrong.
type Problem struct {
	File   string       `json:"file"`
	What   string       `json:"what"`
	Remedy setting.Text `json:"remedy"`
}

func (r *Report) problem(file, what string, remedy setting.Text) {
	r.Problems = append(r.Problems, Problem{file, what, remedy})
}

func (r *Report) note(text string) { r.Notes = append(r.Notes, text) }

// read counts a part that was read.
func (r *Report) read(c promptset.PartContent, s folder.PartSummary) {
	r.Rows += c.Rows
	r.Bytes += c.Bytes
	r.Done += s.Completions
}

// settle sets the result of the checks.
func (r *Report) settle() {
	if r.unchecked > 0 {
		r.Unchecked = true
		r.note(countedAre(r.unchecked, "part") +
			" written by a version that noted no size and no digest: rows and footers were checked, the bytes were not")
	}
	switch {
	case len(r.Problems) > 0:
		r.Status = "damaged"
	case len(r.Missing) > 0:
		r.Status = "unfinished"
	default:
		r.Status = "whole"
	}
	for _, list := range []*[]string{&r.Missing, &r.Notes} {
		if *list == nil {
			*list = []string{}
		}
	}
	if r.Problems == nil {
		r.Problems = []Problem{}
	}
}

func countedAre(n int, thing string) string {
	return plural.Count(n, thing) + plural.Of(n, " was", " were")
}

func sameMeta(found, want map[string]string) bool { return maps.Equal(found, want) }
