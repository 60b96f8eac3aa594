package storage

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Walk returns the files below a local folder, at any depth, in the order of a walk through their paths. It follows
// links and enters each folder once, so cycles end: a folder that is below root without links is found there,
// regardless of links to it.
//
// wanted selects the files, and the folders to enter. It gets the target of a link, or the link itself if the target
// does not exist, which is an error if the link is wanted.
func Walk(root string, wanted func(path string, d fs.DirEntry) bool) ([]Info, error) {
	w := &walk{wanted: wanted, links: []string{root}, entered: map[string]bool{}}
	for len(w.links) > 0 {
		folder := w.links[0]
		w.links = w.links[1:]
		if err := w.enter(folder); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(w.files, func(a, b Info) int { return comparePaths(a.Name, b.Name) })
	return w.files, nil
}

// walk is the state of Walk.
type walk struct {
	wanted  func(path string, d fs.DirEntry) bool
	files   []Info
	links   []string        // links to folders; they are followed after everything else was entered
	entered map[string]bool // folders, by their paths without links
}

// enter adds the files of a folder and of the folders below it that are not links.
func (w *walk) enter(folder string) error {
	real, err := filepath.EvalSymlinks(folder)
	if err != nil || w.entered[real] {
		return err
	}
	w.entered[real] = true
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, d := range entries {
		path := filepath.Join(folder, d.Name())
		linked := d.Type()&fs.ModeSymlink != 0
		var broken error
		if linked {
			d, broken = followed(path, d)
		}
		switch {
		case !w.wanted(path, d):
		case broken != nil:
			return broken
		case d.IsDir() && linked:
			w.links = append(w.links, path)
		case d.IsDir():
			if err := w.enter(path); err != nil {
				return err
			}
		case d.Type().IsRegular():
			info, err := d.Info()
			if err != nil {
				return err
			}
			w.files = append(w.files, Info{Name: path, Size: info.Size(), ModTime: info.ModTime()})
		}
	}
	return nil
}

// followed returns the target of a link, or the link and why nothing can be found there.
func followed(path string, link fs.DirEntry) (fs.DirEntry, error) {
	info, err := os.Stat(path)
	if err == nil {
		return fs.FileInfoToDirEntry(info), nil
	}
	target, _ := os.Readlink(path) // if it fails, target is "" and the error is reported below
	return link, fmt.Errorf("%s is a link to %s: %w", path, target, pathless(err))
}

// comparePaths orders paths as a walk through folders does, rather than by the bytes of keys.
func comparePaths(a, b string) int {
	return cmp.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}
