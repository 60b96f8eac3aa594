package jobstate

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
)

// A job in an object store is one job to all machines.
func TestShare(t *testing.T) {
	const url = "mem://jobstate/out"
	open := func(files vfs.FS) *State {
		s, err := Open(files, "work")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		s.Share(t.Context(), url)
		return s
	}
	one, two := &Description{Model: "one"}, &Description{Model: "two"}
	here := open(vfs.NewMem())
	if err := here.Refresh(); err != nil || here.Job() != nil {
		t.Fatal(err)
	}
	if err := here.Begin(one); err != nil {
		t.Fatal(err)
	}
	if there, err := ReadShared(t.Context(), url); err != nil || there == nil || there.Model != "one" {
		t.Errorf("the store has job %v, %v", there, err)
	}
	late := open(vfs.NewMem())
	if err := late.Begin(two); !errors.Is(err, ErrBegun) || late.Job().Model != "one" {
		t.Errorf("a job is begun where there is one: %v", err)
	}
	other := open(vfs.NewMem())
	if err := other.Refresh(); err != nil || other.Job() == nil || other.Job().Model != "one" {
		t.Errorf("another machine takes the job for %v, %v", other.Job(), err)
	}
	if err := other.Refresh(); err != nil {
		t.Error(err)
	}
	// The store's job was removed, and a different one started.
	note := storage.Join(url, Folder+"/parts/part-00000.json")
	if err := storage.Put(t.Context(), note, strings.NewReader("{}")); err != nil {
		t.Fatal(err)
	}
	if err := here.Clear(); err != nil || here.Job() != nil {
		t.Fatal(err)
	}
	if _, err := storage.Stat(t.Context(), url); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is left in the store: %v", err)
	}
	if err := here.Begin(two); err != nil {
		t.Fatal(err)
	}
	if err := other.Refresh(); err == nil || !strings.Contains(err.Error(), "to a different job") {
		t.Errorf("the work folder's job is not the store's: %v", err)
	}
}

// A damaged job.json cannot be continued.
func TestSharedDamaged(t *testing.T) {
	const url = "mem://jobstate/damaged"
	if err := storage.Put(t.Context(), storage.Join(url, JobFile), strings.NewReader("{")); err != nil {
		t.Fatal(err)
	}
	if d, err := ReadShared(t.Context(), url); d != nil || err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("it is read as %v, %v", d, err)
	}
	if d, err := ReadShared(t.Context(), "mem://jobstate/none"); d != nil || err != nil {
		t.Errorf("there is a job where is none: %v, %v", d, err)
	}
}
