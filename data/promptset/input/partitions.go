package input

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/data/storage"
)

// Partition is a column that a folder named key=value gives to all rows of the files in it, as in Hive.
type Partition struct {
	Name  string
	Value string // JSON: text, or null
}

// hiveNull is the value of a folder that stands for null.
const hiveNull = "__HIVE_DEFAULT_PARTITION__"

// PartitionOf returns the column that a folder defines. Names with a meaning, such as those of parameters, define
// none.
func PartitionOf(folder string) (p Partition, ok bool) {
	key, value, ok := strings.Cut(folder, "=")
	if name, err := url.PathUnescape(key); err == nil {
		key = name
	}
	if !ok || key == "" || slices.Contains(schema.KnownNames, key) || len(schema.ForeignNames(key)) > 0 {
		return p, false
	}
	if value == hiveNull {
		return Partition{key, "null"}, true
	}
	if text, err := url.PathUnescape(value); err == nil {
		value = text
	}
	return Partition{key, string(jsonvalue.AppendText(nil, value))}, true
}

// PartitionsOf returns the columns that the folders of a file define: the columns of m.Partitions, or else the columns
// below the folder that was given as an input, or that its glob stands for.
func PartitionsOf(m *record.Mapping, given, name string) (all []Partition, err error) {
	below := name
	if len(m.Partitions) == 0 {
		if below, err = belowInput(given, name); err != nil {
			return nil, err
		}
	}
	folders := strings.Split(below, "/")
	for _, folder := range folders[:len(folders)-1] {
		p, ok := PartitionOf(folder)
		if !ok || len(m.Partitions) > 0 && !slices.Contains(m.Partitions, p.Name) {
			continue
		}
		if slices.ContainsFunc(all, func(o Partition) bool { return o.Name == p.Name }) {
			return nil, &record.FileError{File: name, What: fmt.Sprintf(
				"the folder %s is the second for the column %s; rename one", folder, p.Name)}
		}
		all = append(all, p)
	}
	return all, nil
}

// belowInput returns the part of a file's name after the input by which it was found.
func belowInput(given, name string) (string, error) {
	given, err := storage.Resolve(given)
	if err != nil {
		return "", &record.FileError{File: name, What: "cannot read it", Err: err}
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

// FolderColumns describes the columns that the file's folders define, such as lang=en/split=test; "" if they define
// none.
func (s *Source) FolderColumns() string {
	all := make([]string, len(s.Partitions))
	for i, p := range s.Partitions {
		value := hiveNull
		if text := ""; p.Value != "null" && json.Unmarshal([]byte(p.Value), &text) == nil {
			value = url.PathEscape(text)
		}
		all[i] = strings.ReplaceAll(url.PathEscape(p.Name), "=", "%3D") + "=" + value
	}
	return strings.Join(all, "/")
}

// AddPartitions adds the columns of the file's folders to a row.
func (s *Source) AddPartitions(object []jsonvalue.Member) ([]jsonvalue.Member, error) {
	for _, p := range s.Partitions {
		if jsonvalue.Find(object, p.Name) != nil {
			return nil, p.Twice(s.Name)
		}
		object = append(object, jsonvalue.Member{Key: p.Name, Raw: json.RawMessage(p.Value)})
	}
	return object, nil
}

// Twice returns the error for a column that both a folder and a file have.
func (p *Partition) Twice(file string) error {
	return &record.FileError{File: file,
		What: fmt.Sprintf("the file and its folder %s=... both have a column %q; rename one",
			p.Name, p.Name)}
}

// IsPartition reports whether a folder defines a column.
func (s *Source) IsPartition(column string) bool {
	return slices.ContainsFunc(s.Partitions, func(p Partition) bool { return p.Name == column })
}
