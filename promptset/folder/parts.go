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

// Belongs says whether a part is one of a job that cuts its rows so and writes this format.
func (p Part) Belongs(parts Parts, format string) bool {
	return p.Number < parts.Count() && p == parts.Part(p.Number, format)
}

// Parts says how the rows of a job are cut into parts: part i has the rows with Index from i*PartRows on, PartRows of
// them or what is left. So a part depends on its own rows only, whoever writes it and after whatever else. A job
// without rows has one part without rows.
//
// With folders, see [Parts.In], each run of rows is cut by itself, and parts are numbered through all runs.
type Parts struct {
	Rows     int64 // of the job
	PartRows int64 // at least 1

	runs []run // none for parts in no folders
}

// run is rows behind one another whose parts are in one folder.
type run struct {
	from   int64 // first row
	part   int   // first part
	folder string
}

// In returns parts that lie in folders: rows[i] rows behind those before them have their parts in folders[i], a path
// such as lang=en/split=test, or "" for the output's own folder. Neighbours of the same folder are cut together.
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

// runOf returns the run with a row, and the first row behind it.
func (p Parts) runOf(i int) (r run, to int64) {
	if i < 0 {
		return run{}, p.Rows
	}
	if i+1 < len(p.runs) {
		return p.runs[i], min(p.runs[i+1].from, p.Rows)
	}
	return p.runs[i], p.Rows
}

// Count is the number of parts.
func (p Parts) Count() int {
	if p.Rows == 0 {
		return 1
	}
	return p.Of(p.Rows-1) + 1
}

// Range returns the rows of a part: from is the first, to the one after the last.
func (p Parts) Range(part int) (from, to int64) {
	r, end := p.runOf(p.runOfPart(part))
	from = r.from + int64(part-r.part)*p.PartRows
	return from, min(from+p.PartRows, end)
}

// runOfPart is the index of the run that has a part; -1 where there are none.
func (p Parts) runOfPart(part int) int {
	return sort.Search(len(p.runs), func(i int) bool { return p.runs[i].part > part }) - 1
}

// Of returns the part that a row is in.
func (p Parts) Of(row int64) int {
	r, _ := p.runOf(sort.Search(len(p.runs), func(i int) bool { return p.runs[i].from > row }) - 1)
	return r.part + int((row-r.from)/p.PartRows)
}

// All lists the parts.
func (p Parts) All() []int {
	all := make([]int, p.Count())
	for i := range all {
		all[i] = i
	}
	return all
}

// Name is the path of a part in the output: its folder, and [PartName].
func (p Parts) Name(part int, format string) string {
	r, _ := p.runOf(p.runOfPart(part))
	return path.Join(r.folder, PartName(part, format))
}

// Part is the part file of a number.
func (p Parts) Part(number int, format string) Part {
	return Part{number, format, p.Name(number, format)}
}

// Files lists the part files of some numbers.
func (p Parts) Files(numbers []int, format string) []Part {
	files := make([]Part, len(numbers))
	for i, number := range numbers {
		files[i] = p.Part(number, format)
	}
	return files
}

var partPattern = regexp.MustCompile(`^part-(\d{5,9})\.(` + extensionsPattern() + `)$`)

// PartName is the name of a part of the output.
func PartName(part int, format string) string {
	return fmt.Sprintf("part-%05d.%s", part, extensionOf(format))
}

// ParsePartName is the inverse of [Parts.Name]; ok says whether name is one of a part.
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

// FoldersIn lists the folders of a path that ends with one.
func FoldersIn(folder string) []string { return strings.Split(strings.TrimSuffix(folder, "/"), "/") }

// NoPartition says that no parts are in a folder of this name.
func NoPartition(name string) bool {
	return strings.Index(name, "=") < 1 || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}
