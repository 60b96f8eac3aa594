package gguf

import (
	"fmt"
	"regexp"
	"strconv"
)

// llama.cpp's gguf-split writes a model as several files, NAME-00001-of-00003.gguf and so on. The first has the
// metadata, any may have tensors, and each states its number and how many there are.
const (
	splitNumber  = "split.no" // the number of the file, from 0
	splitCount   = "split.count"
	splitTensors = "split.tensors.count" // tensors in all files
)

var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// maxSplit bounds the number of files that a name can ask for.
const maxSplit = 4096

// SplitNames returns the names of all files of a split model in order, given one of them. It returns only name if
// that is not such a name.
func SplitNames(name string) []string {
	m := splitName.FindStringSubmatch(name)
	if m == nil {
		return []string{name}
	}
	number, _ := strconv.Atoi(m[2])
	count, _ := strconv.Atoi(m[3])
	if number < 1 || number > count || count > maxSplit {
		return []string{name}
	}
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i+1, count)
	}
	return names
}

// SplitCount returns the number of files of f's model: 1 if it is not split.
func (f *File) SplitCount() int {
	n, _ := f.Int(splitCount)
	return int(min(max(n, 1), maxEntries))
}

// Join returns a split model as one file: the metadata of the first part, and the tensors of all parts. Its Close
// closes the parts.
func Join(parts []*File) (*File, error) {
	first := parts[0]
	f := &File{Version: first.Version, name: first.name, header: first.header, values: first.values, keys: first.keys,
		byName: map[string]*Tensor{}, parts: parts}
	for i, part := range parts {
		number, ok := part.Int(splitNumber)
		if !ok || number != int64(i) || part.SplitCount() != len(parts) {
			return nil, fmt.Errorf("GGUF file %s is not marked as part %d of %d (%s %d, %s %d); name the files "+
				"as gguf-split did", part.name, i+1, len(parts), splitNumber, number, splitCount, part.SplitCount())
		}
		f.tensors = append(f.tensors, part.tensors...)
	}
	for i := range f.tensors {
		t := &f.tensors[i]
		if f.byName[t.Name] != nil {
			return nil, fmt.Errorf("GGUF file %s and the other parts of its model have tensor %q twice", f.name, t.Name)
		}
		f.byName[t.Name] = t
	}
	if n, ok := f.Int(splitTensors); ok && n != int64(len(f.tensors)) {
		return nil, fmt.Errorf("GGUF file %s states that its model has %d tensors, but the parts have %d; they are of "+
			"different models or damaged", f.name, n, len(f.tensors))
	}
	return f, nil
}

// Parts returns the files of a split model; f alone if it is not split.
func (f *File) Parts() []*File {
	if f.parts == nil {
		return []*File{f}
	}
	return f.parts
}

// Name returns the file's name as given to Open or Parse; for a split model, the name of the first part.
func (f *File) Name() string { return f.name }
