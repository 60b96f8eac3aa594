package promptset

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The files that accompany a data set saved by datasets.save_to_disk.
const (
	savedInfo  = "dataset_info.json"
	savedState = "state.json"
	maxState   = 16 << 20
)

// savedSet is the part of a saved data set's state that lists its files.
type savedSet struct {
	Data         []savedFile `json:"_data_files"`
	Indices      []savedFile `json:"_indices_files"`
	OlderIndices []savedFile `json:"_indices_data_files"`
}

type savedFile struct {
	Name string `json:"filename"`
}

// chosen returns the prompt files among the files below the folder root, whose names are relative to it and in the
// order of reading. For a saved data set these are the files that its state names, in that order; read returns the
// content of a file.
func chosen(root string, names []string, read func(name string) ([]byte, error)) (files []string, err error) {
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	done := map[string]bool{}
	for _, name := range names {
		dir := path.Dir(name)
		switch {
		case !there[path.Join(dir, savedInfo)] || !there[path.Join(dir, savedState)]:
			if hasExtension(name) {
				files = append(files, name)
			}
		case !done[dir]:
			done[dir] = true
			state := path.Join(dir, savedState)
			text, err := read(state)
			if err != nil {
				return nil, err
			}
			saved, err := savedFiles(text)
			if err != nil {
				return nil, &FileError{File: root + "/" + state, What: "not the state of a saved data set", Err: err}
			}
			for _, f := range saved {
				f = path.Join(dir, f)
				if !there[f] {
					return nil, &FileError{File: root + "/" + state, What: fmt.Sprintf(
						"it names %s, which is not there; copy it there, or save the data set again", f)}
				}
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// savedFiles returns the names of the files in a state.
func savedFiles(text []byte) (names []string, err error) {
	var state savedSet
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, err
	}
	if len(state.Indices)+len(state.OlderIndices) > 0 {
		return nil, errors.New("it has indices, which select rows and are not read; " +
			"call flatten_indices() before save_to_disk()")
	}
	for _, f := range state.Data {
		if f.Name == "" || strings.ContainsAny(f.Name, `/\`) || f.Name == ".." || slices.Contains(names, f.Name) {
			return nil, fmt.Errorf("its file %q is not one of the folder, or is there twice", f.Name)
		}
		names = append(names, f.Name)
	}
	return names, nil
}
