package watch

import (
	"context"
	"errors"
	"fmt"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
)

// Earlier opens versions that an engine of the job had before.
type Earlier struct {
	watcher *Watcher
	base    *models.Checkpoint
	opened  map[string]*models.Checkpoint // by version
	layers  []layer                       // opened here
}

// Earlier makes what opens earlier versions for the engine of a session. The caller closes it when the engine has taken
// the session's model again.
func (w *Watcher) Earlier(s *process.Session) *Earlier {
	return &Earlier{watcher: w, base: s.Checkpoint, opened: map[string]*models.Checkpoint{s.Fingerprint: s.Checkpoint}}
}

// Find opens a version, which consists of the checkpoints with these names: see versions.Note.
func (e *Earlier) Find(ctx context.Context, version string, names []string) error {
	if e.opened[version] != nil {
		return nil
	}
	if len(names) == 0 {
		return errors.New("it is that of a model that is not the job's any more")
	}
	c := e.base
	for _, name := range names {
		layer, err := e.watcher.openOver(ctx, name, e.base, c)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		e.layers = append(e.layers, layer)
		c = layer.over(e.base, c)
	}
	if now := c.FingerPrint(); now != version {
		return fmt.Errorf("%s is of version %.12s now", names[len(names)-1], now)
	}
	e.opened[version] = c
	return nil
}

// FindAll opens all versions that the watched place has: each of its checkpoints over those before it. What does not
// fit the model is left out.
func (e *Earlier) FindAll(ctx context.Context) error {
	names, err := published(ctx, e.watcher.place)
	if err != nil {
		return err
	}
	c := e.base
	for _, name := range names {
		layer, err := e.watcher.openOver(ctx, name, e.base, c)
		if err != nil {
			e.watcher.process.Printf("warning: weights %s are left out: %v", name, err)
			continue
		}
		e.layers = append(e.layers, layer)
		c = layer.over(e.base, c)
		e.opened[c.FingerPrint()] = c
	}
	return ctx.Err()
}

// Has reports whether a version was found.
func (e *Earlier) Has(version string) bool { return e.opened[version] != nil }

// Open is an [engine.OpenVersion], for versions that were found.
func (e *Earlier) Open(_ context.Context, version string) (*models.Checkpoint, error) {
	if c := e.opened[version]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("the weights %.12s are not there", version)
}

// Close closes what was opened.
func (e *Earlier) Close() {
	for _, layer := range e.layers {
		_ = layer.Close() // only read
	}
}

// Reset has the engine of a session take the session's model again, if it may have another version.
func (e *Earlier) Reset(ctx context.Context, s *process.Session) error {
	if len(e.layers) == 0 {
		return nil
	}
	_, err := s.Sampler.(swapper).Swap(ctx, s.Checkpoint, engine.Finish)
	return err
}
