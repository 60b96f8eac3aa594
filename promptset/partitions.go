package promptset

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/storage"
)

// Partition is a column that a folder named key=value gives all rows of the files in it, as Hive has it.
type Partition struct {
	name  string
	value string // JSON: text, or null
}

// hiveNull is the value of a folder that stands for null.
const hiveNull = "__HIVE_DEFAULT_PARTITION__"

// partitionOf returns the column that a folder gives. Names that have a meaning, as those of parameters, give none.
func partitionOf(folder string) (p Partition, ok bool) {
	key, value, ok := strings.Cut(folder, "=")
	if name, err := url.PathUnescape(key); err == nil {
		key = name
	}
	if !ok || key == "" || slices.Contains(knownNames, key) || len(foreignNames(key)) > 0 {
		return p, false
	}
	if value == hiveNull {
		return Partition{key, "null"}, true
	}
	if text, err := url.PathUnescape(value); err == nil {
		value = text
	}
	return Partition{key, string(appendText(nil, value))}, true
}

// partitionsOf returns the columns that the folders of a file give: those of m.Partitions, or else those below the
// folder that was given as an input, or that its glob stands for.
func partitionsOf(m *Mapping, given, name string) (all []Partition, err error) {
	below := name
	if len(m.Partitions) == 0 {
		if below, err = belowInput(given, name); err != nil {
			return nil, err
		}
	}
	folders := strings.Split(below, "/")
	for _, folder := range folders[:len(folders)-1] {
		p, ok := partitionOf(folder)
		if !ok || len(m.Partitions) > 0 && !slices.Contains(m.Partitions, p.name) {
			continue
		}
		if slices.ContainsFunc(all, func(o Partition) bool { return o.name == p.name }) {
			return nil, &FileError{File: name, What: fmt.Sprintf(
				"the folder %s is the second for the column %s; rename one", folder, p.name)}
		}
		all = append(all, p)
	}
	return all, nil
}

// belowInput is the part of a file's name behind the input that it was found by.
func belowInput(given, name string) (string, error) {
	given, err := storage.Resolve(given)
	if err != nil {
		return "", &FileError{File: name, What: "cannot read it", Err: err}
	}
	remote := storage.IsRemote(given)
	if remote {
		given = storage.Redact(given)
	}
	if i := strings.IndexAny(given, "*?["); i >= 0 {
		given = given[:strings.LastIndex(given[:i], "/")+1]
	}
	if !remote && given != "" {
		given = filepath.Clean(given)
	}
	if given == "." {
		given = ""
	}
	below, ok := strings.CutPrefix(name, given)
	if !ok {
		return "", nil
	}
	return below, nil
}

// FolderColumns are the columns that the file's folders give, such as lang=en/split=test; "" where they give none.
func (s *Source) FolderColumns() string {
	all := make([]string, len(s.Partitions))
	for i, p := range s.Partitions {
		value := hiveNull
		if text := ""; p.value != "null" && json.Unmarshal([]byte(p.value), &text) == nil {
			value = url.PathEscape(text)
		}
		all[i] = strings.ReplaceAll(url.PathEscape(p.name), "=", "%3D") + "=" + value
	}
	return strings.Join(all, "/")
}

// CheckKept says why an output cannot have its parts in folders as those of the input, where it has so many columns on
// request.
func (r *Reader) CheckKept(requested []string) error {
	names := r.Partitions()
	if len(names) == 0 {
		return errors.New("is for inputs in folders such as lang=en, below a folder that is given as an input: these " +
			"have none")
	}
	for _, c := range written(requested) {
		if slices.Contains(names, c.Name) {
			return fmt.Errorf("would make folders %s=..., and the output has a column of its own of that name: rename "+
				"the folders", c.Name)
		}
	}
	for _, s := range r.sources {
		if folder := s.FolderColumns(); folder != "" && slices.ContainsFunc(foldersIn(folder), noPartition) {
			return fmt.Errorf("would make the folder %s, and readers take no files out of folders whose names begin "+
				"with _ or a point: rename the folders of %s", folder, s.Name)
		}
	}
	return nil
}

// columnsIn are the columns that the folders of a path give.
func columnsIn(name string) (all []Partition) {
	folder, _ := path.Split(name)
	for _, name := range foldersIn(folder) {
		if p, ok := partitionOf(name); ok {
			all = append(all, p)
		}
	}
	return all
}

// Partitions are the columns that folders named key=value give.
func (r *Reader) Partitions() (names []string) {
	for _, s := range r.sources {
		for _, p := range s.Partitions {
			if !slices.Contains(names, p.name) {
				names = append(names, p.name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// checkPartitions refuses files whose columns do not follow from their names and those of the columns, by which they
// are opened again.
func (r *Reader) checkPartitions() error {
	again := Mapping{Partitions: r.Partitions()}
	if len(again.Partitions) == 0 {
		return nil
	}
	for _, s := range r.sources {
		if all, err := partitionsOf(&again, "", s.Name); err != nil {
			return err
		} else if !slices.Equal(all, s.Partitions) {
			return &FileError{File: s.Name, What: "a folder above the input has the name of a column that folders " +
				"below it give; rename it"}
		}
	}
	return nil
}

// AddPartitions adds the columns of the file's folders to a row.
func (s *Source) AddPartitions(object []member) ([]member, error) {
	for _, p := range s.Partitions {
		if valueOf(object, p.name) != nil {
			return nil, p.twice(s.Name)
		}
		object = append(object, member{p.name, json.RawMessage(p.value)})
	}
	return object, nil
}

// twice is the error for a column that a folder and a file both have.
func (p *Partition) twice(file string) error {
	return &FileError{File: file, What: fmt.Sprintf("the file and its folder %s=... both have a column %q; rename one",
		p.name, p.name)}
}

// isPartition says that a folder gives a column.
func (s *Source) isPartition(column string) bool {
	return slices.ContainsFunc(s.Partitions, func(p Partition) bool { return p.name == column })
}

// partition adds the columns of the file's folders, before those that have a meaning are found.
func (t *table) partition(all []Partition) error {
	for i := range all {
		if t.root.field(all[i].name) != nil {
			return all[i].twice(t.name)
		}
		t.root.fields = append(t.root.fields, jsonText.node(all[i].name))
	}
	number(t.root)
	for _, p := range all {
		c := t.root.field(p.name)
		v := parquet.NullValue().Level(0, 0, c.column)
		var text string
		if p.value != "null" && json.Unmarshal([]byte(p.value), &text) == nil {
			v = parquet.ByteArrayValue([]byte(text)).Level(0, c.maxDef, c.column)
		}
		t.folders = append(t.folders, v)
	}
	return nil
}
