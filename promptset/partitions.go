package promptset

import (
	"encoding/json"
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

// columnsIn are the columns that the folders of a path give.
func columnsIn(name string) (all []Partition) {
	dir, _ := path.Split(name)
	for _, name := range foldersIn(dir) {
		if p, ok := partitionOf(name); ok {
			all = append(all, p)
		}
	}
	return all
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
