package folder

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
)

// publish writes a file into an output folder.
func publish(t *testing.T, folder Output, name, text string) error {
	t.Helper()
	p, err := folder.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return p.Publish()
}

// Output folders behave alike, wherever they are.
func TestOutputFolders(t *testing.T) {
	for _, output := range []string{"out", "mem://outputfolders/out", "mem://outputfolders2"} {
		files := vfs.NewMem()
		folder, err := Open(t.Context(), files, output, "", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(publish(t, folder, PartName(1, JSONL), "one"), WriteMeta(folder, nil)); err != nil {
			t.Fatal(output, err)
		}
		reading := OpenToRead(t.Context(), files, output)
		names, err := reading.Names()
		if slices.Sort(names); err != nil || !slices.Equal(names, []string{MetaName, "part-00001.jsonl"}) {
			t.Errorf("%s has %v, %v", output, names, err)
		}
		file, err := reading.Open("part-00001.jsonl")
		if err != nil || file.Size() != 3 {
			t.Errorf("%s has a part that cannot be read: %v", output, err)
		}
		if what, err := MendMeta(folder, map[string]string{"a": "b"}); what != "is not what was written" || err != nil {
			t.Errorf("%s: metadata: %q, %v", output, what, err)
		}
		if what, err := MendMeta(folder, map[string]string{"a": "b"}); what != "" || err != nil {
			t.Errorf("%s: mended metadata: %q, %v", output, what, err)
		}
		if err := folder.Clear(); err != nil {
			t.Error(err)
		}
		if names, err = reading.Names(); err != nil || len(names) > 0 {
			t.Errorf("%s has %v after Clear, %v", output, names, err)
		}
	}
}

// Of two processes that write a part, one does; a damaged part is replaced, unless it was fixed meanwhile.
func TestCondemnedObjects(t *testing.T) {
	const output = "mem://condemned/out"
	folder, err := newObjects(t.Context(), output, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	version := func() string {
		file, err := folder.Open("part-00000.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		return file.Version()
	}
	if err := publish(t, folder, "part-00000.jsonl", "damaged"); err != nil {
		t.Fatal(err)
	}
	damaged := version()
	if err := publish(t, folder, "part-00000.jsonl", "whole"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an object is written over: %v", err)
	}
	folder.Condemn("part-00000.jsonl", damaged)
	if err := publish(t, folder, "part-00000.jsonl", "whole"); err != nil {
		t.Error(err)
	}
	folder.Condemn("part-00000.jsonl", damaged)
	if err := publish(t, folder, "part-00000.jsonl", "another"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an object that was mended is removed: %v", err)
	}
}

// The note of an intact part stays; the note of a damaged or missing one is replaced.
func TestNotesOfObjects(t *testing.T) {
	const output = "mem://notes/out"
	folder, err := newObjects(t.Context(), output, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	first, second := noteOf(3, "first"), noteOf(3, "second")
	for _, p := range []PartSummary{first, first, second} { // nothing is published yet
		if err := folder.AddNote(p, PartName(p.Part, JSONL)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := folder.Note(3); err != nil || got == nil || got.Seal != second.Seal {
		t.Errorf("the note is %v, %v", got, err)
	}
	if err := publish(t, folder, PartName(3, JSONL), "second"); err != nil {
		t.Fatal(err)
	}
	if err := folder.AddNote(first, PartName(first.Part, JSONL)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the note of a whole part is replaced: %v", err)
	}
	if got, err := folder.Note(4); got != nil || err != nil {
		t.Errorf("a part that was never noted has the note %v, %v", got, err)
	}
	bad := storage.Join(output, notesFolder+"part-00009.json")
	if err := storage.Put(t.Context(), bad, strings.NewReader("{")); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	err = folder.Notes(func(name string, p PartSummary, err error) { seen[name] = errors.Is(err, ErrNote) })
	if err != nil || len(seen) != 2 || seen[notesFolder+"part-00003.json"] || !seen[notesFolder+"part-00009.json"] {
		t.Errorf("the notes are %v, %v", seen, err)
	}
}
