package jobstate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/quire/quire/data/storage"
)

// store is an output in an object store. It has a job.json as a local output does, so that another machine can
// continue the job if this one is lost.
type store struct {
	ctx context.Context
	url string
}

// Share declares that the job's output is in an object store: job.json is then written there, too, even if ctx is
// cancelled.
func (s *State) Share(ctx context.Context, url string) {
	s.store = &store{context.WithoutCancel(ctx), url}
}

// ReadShared reads the job that an output in an object store holds; nil if there is none.
func ReadShared(ctx context.Context, url string) (*Description, error) {
	return (&store{ctx, url}).job()
}

// job reads job.json; nil means that there is none.
func (s *store) job() (*Description, error) {
	name := storage.Join(s.url, JobFile)
	text, err := storage.ReadFile(s.ctx, name, maxJob)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	there, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove it to start again, or choose another output",
			storage.Redact(name), err)
	}
	return there, nil
}

// begin puts job.json if there is none. It returns the job that is in the store afterwards: d, or the job of a
// machine that was faster.
func (s *store) begin(d *Description) (*Description, error) {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, err
	}
	err = storage.Put(s.ctx, storage.Join(s.url, JobFile), bytes.NewReader(append(text, '\n')))
	if !errors.Is(err, fs.ErrExist) {
		return d, err
	}
	there, readErr := s.job()
	if there == nil {
		return nil, errors.Join(err, readErr)
	}
	return there, nil
}

// clear removes the folder of the job's state, job.json last: without it nobody knows whose the other files are.
func (s *store) clear() error {
	files, err := storage.List(s.ctx, storage.Join(s.url, Folder))
	if err != nil {
		return err
	}
	job := storage.Path(storage.Join(s.url, JobFile))
	isJob := func(info storage.Info) bool { return storage.Path(info.Name) == job }
	slices.SortStableFunc(files, func(a, b storage.Info) int {
		switch {
		case isJob(a) == isJob(b):
			return 0
		case isJob(a):
			return 1
		}
		return -1
	})
	for _, info := range files {
		if err := storage.Remove(s.ctx, info.Name); err != nil {
			return err
		}
	}
	return nil
}

// adopt makes the store's job the folder's job.
func (s *State) adopt() error {
	there, err := s.store.job()
	if err != nil || there == nil {
		return err
	}
	if s.job == nil {
		if err := s.begin(there); err != nil && !errors.Is(err, ErrBegun) {
			return err
		}
	}
	if differences := there.Differences(s.job); len(differences) > 0 {
		return fmt.Errorf(
			"the work folder %s belongs to a different job from the one in %s: %s; remove it to start again", s.dir,
			storage.Redact(s.store.url), differences)
	}
	return nil
}
