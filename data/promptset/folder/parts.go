package folder

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Part is a part file of an output.
type Part struct {
	Number       int
	Format, Name string
}

// Belongs reports whether a part belongs to a job that divides its rows in this way and writes this format.
func (p Part) Belongs(parts Parts, format string) bool {
	return p.Number < parts.Count() && p == parts.Part(p.Number, format)
}

// Parts defines how the rows of a job are divided into parts: part i has the PartRows rows with Index from i*PartRows
// on, or the rest. So a part depends only on its own rows, regardless of who writes it and when. A job without rows
// has one part without rows.
//
// With folders, see [Parts.In], each run of rows is divided separately, and parts are numbered through all runs.
type Parts struct {
	Rows     int64 // number of the job's rows
	PartRows int64 // at least 1

	runs []run // nil if parts are not in folders
}

// run is a range of consecutive rows whose parts are in one folder.
type run struct {
	from   int64 // first row
	part   int   // first part
	folder string
}

// In returns parts in folders: each rows[i] consecutive rows have their parts in folders[i], a path such as
// lang=en/split=test, or "" for the output's own folder. Adjacent runs with the same folder are merged.
func (p Parts) In(folders []string, rows []int64) Parts {
	p.runs = nil
	from := int64(0)
	for i, folder := range folders {
		last := len(p.runs) - 1
		switch {
		case rows[i] == 0:
			continue
		case last < 0:
			p.runs = append(p.runs, run{folder: folder})
		case p.runs[last].folder != folder:
			before := p.runs[last]
			parts := (from - before.from + p.PartRows - 1) / p.PartRows
			p.runs = append(p.runs, run{from: from, part: before.part + int(parts), folder: folder})
		}
		from += rows[i]
	}
	return p
}

// runOf returns a run, and the row after its last.
func (p Parts) runOf(i int) (r run, to int64) {
	if i < 0 {
		return run{}, p.Rows
	}
	if i+1 < len(p.runs) {
		return p.runs[i], min(p.runs[i+1].from, p.Rows)
	}
	return p.runs[i], p.Rows
}

// Count returns the number of parts.
func (p Parts) Count() int {
	if p.Rows == 0 {
		return 1
	}
	return p.Of(p.Rows-1) + 1
}

// Range returns the rows [from, to) of a part.
func (p Parts) Range(part int) (from, to int64) {
	r, end := p.runOf(p.runOfPart(part))
	from = r.from + int64(part-r.part)*p.PartRows
	return from, min(from+p.PartRows, end)
}

// runOfPart returns the index of the run that has a part; -1 if there are no runs.
func (p Parts) runOfPart(part int) int {
	return sort.Search(len(p.runs), func(i int) bool { return p.runs[i].part > part }) - 1
}

// Of returns the part that a row belongs to.
func (p Parts) Of(row int64) int {
	r, _ := p.runOf(sort.Search(len(p.runs), func(i int) bool { return p.runs[i].from > row }) - 1)
	return r.part + int((row-r.from)/p.PartRows)
}

// All lists the numbers of all parts.
func (p Parts) All() []int {
	all := make([]int, p.Count())
	for i := range all {
		all[i] = i
	}
	return all
}

// Name returns the path of a part in the output: its folder, and [PartName].
func (p Parts) Name(part int, format string) string {
	r, _ := p.runOf(p.runOfPart(part))
	return path.Join(r.folder, PartName(part, format))
}

// Part returns the part file with a number.
func (p Parts) Part(number int, format string) Part {
	return Part{number, format, p.Name(number, format)}
}

// Files returns the part files with some numbers.
func (p Parts) Files(numbers []int, format string) []Part {
	files := make([]Part, len(numbers))
	for i, number := range numbers {
		files[i] = p.Part(number, format)
	}
	return files
}

var partPattern = regexp.MustCompile(`^part-(\d{5,9})\.(` + extensionsPattern() + `)$`)

// PartName returns the file name of a part of the output.
func PartName(part int, format string) string {
	return fmt.Sprintf("part-%05d.%s", part, extensionOf(format))
}

// ParsePartName is the inverse of [Parts.Name]; ok reports whether name is a part's.
func ParsePartName(name string) (part int, format string, ok bool) {
	folder, name := path.Split(name)
	m := partPattern.FindStringSubmatch(name)
	if m == nil || folder != "" && slices.ContainsFunc(FoldersIn(folder), NoPartition) {
		return 0, "", false
	}
	part, err := strconv.Atoi(m[1])
	format = FormatOfFile(name)
	return part, format, err == nil && PartName(part, format) == name
}

// FoldersIn lists the folders of a path.
func FoldersIn(folder string) []string { return strings.Split(strings.TrimSuffix(folder, "/"), "/") }

// NoPartition reports whether a folder of this name cannot contain parts.
func NoPartition(name string) bool {
	return strings.Index(name, "=") < 1 || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}
