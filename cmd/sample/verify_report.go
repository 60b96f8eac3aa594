package main

import (
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/promptset"
)

// verifyReport is what "sample verify" found; --json prints it.
type verifyReport struct {
	Output    string          `json:"output"`
	Status    string          `json:"status"`              // whole, unfinished or damaged
	Parts     int             `json:"parts"`               // of the job; 0 where it is not known
	Whole     int             `json:"parts_whole"`         // that are there, with nothing wrong
	Missing   []string        `json:"parts_missing"`       // names
	Later     int             `json:"parts_unread"`        // that appeared while others were read
	Unchecked bool            `json:"without_digests"`     // some parts were written by a version that noted no digests
	Rows      int64           `json:"rows"`                // of the output, in the parts that were read
	Done      int64           `json:"completions"`         // good ones of them
	Bytes     int64           `json:"bytes"`               // of these parts
	Journaled int64           `json:"journal_completions"` // in the journal on this machine
	Inputs    string          `json:"inputs"`              // compared, or not compared: why
	Problems  []verifyProblem `json:"problems"`
	Notes     []string        `json:"notes"` // what is no problem

	unchecked int
}

// verifyProblem is one thing that is wrong.
type verifyProblem struct {
	File   string `json:"file"`
	What   string `json:"what"`
	Remedy string `json:"remedy"`
}

func (r *verifyReport) problem(file, what, remedy string) {
	r.Problems = append(r.Problems, verifyProblem{file, what, remedy})
}

func (r *verifyReport) note(text string) { r.Notes = append(r.Notes, text) }

// read counts a part that was read.
func (r *verifyReport) read(c promptset.PartContent, s promptset.PartSummary) {
	r.Rows += c.Rows
	r.Bytes += c.Bytes
	r.Done += s.Completions
}

// settle says what it comes to.
func (r *verifyReport) settle() {
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
		r.Problems = []verifyProblem{}
	}
}

// missingNamed is how many missing parts are named in a line.
const missingNamed = 5

func (r *verifyReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	var lines []string
	for _, p := range r.Problems {
		lines = append(lines, fmt.Sprintf("%s: %s (%s)", p.File, p.What, p.Remedy))
	}
	for _, n := range r.Notes {
		lines = append(lines, "note: "+n)
	}
	if r.Inputs != "compared" {
		lines = append(lines, "note: the inputs are "+r.Inputs)
	}
	if n := len(r.Missing); n > 0 {
		names := strings.Join(r.Missing[:min(n, missingNamed)], ", ")
		if n > missingNamed {
			names += fmt.Sprintf(" and %d more", n-missingNamed)
		}
		lines = append(lines, fmt.Sprintf("missing: %s; the journal here has %s; the same sample run command goes on",
			names,
			plural.Count(r.Journaled, "completion")))
	}
	of := ""
	if r.Parts > 0 {
		of = fmt.Sprintf(" of %d", r.Parts)
	}
	lines = append(lines, fmt.Sprintf("%s is %s: %d%s parts are whole; %s and %s were read", r.Output, r.Status,
		r.Whole,
		of, plural.Count(r.Rows, "row"), humanize.IBytes(uint64(r.Bytes))))
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

func countedAre(n int, thing string) string {
	return plural.Count(n, thing) + plural.Of(n, " was", " were")
}

func sameMeta(got, want map[string]string) bool { return maps.Equal(got, want) }

// byteBar shows on a terminal how much was read; elsewhere it is silent.
type byteBar struct{ bar *progressbar.ProgressBar }

func newByteBar(w io.Writer) *byteBar {
	if !isTerminal(w) {
		return &byteBar{}
	}
	return &byteBar{progressbar.NewOptions64(-1, progressbar.OptionSetWriter(w), progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(barEvery), progressbar.OptionClearOnFinish())}
}

func (b *byteBar) describe(text string) {
	if b.bar != nil {
		b.bar.Describe(text)
	}
}

func (b *byteBar) add(n int64) {
	if b.bar != nil {
		_ = b.bar.Add64(n)
	}
}

func (b *byteBar) finish() {
	if b.bar != nil {
		_ = b.bar.Finish()
	}
}
