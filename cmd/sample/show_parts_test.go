package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Parts are in the order of their numbers, also where those have more than five digits.
func TestPartFilesAreInOrder(t *testing.T) {
	folder := t.TempDir()
	want := []string{"part-00009.jsonl", "part-99999.jsonl", "part-100000.jsonl", "part-100001.jsonl"}
	for _, name := range want {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	files, err := partFiles(folder)
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if err != nil || !slices.Equal(files, want) {
		t.Errorf("%v, %v", files, err)
	}
}
