// Package watch has the engines of a job take the weights that a trainer puts in a place while the job runs.
package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
)

// Watcher takes new weights for a job, in one engine after the other if the device fails. One goroutine uses it, but
// for what mu guards.
type Watcher struct {
	place   string
	policy  engine.Policy
	process *process.Process
	swap    func(context.Context, *models.Checkpoint, engine.Policy) (engine.Swapped, error)

	last   string             // the newest name that was looked at
	now    *models.Checkpoint // of the engine
	layers []layer            // of now, the oldest first; without the model that the engine was opened with

	mu    sync.Mutex
	taken []Taken
}

// layer is a checkpoint that was opened here, and its name.
type layer struct {
	name string
	*models.Checkpoint
}

// Taken is weights that the engine took.
type Taken struct {
	Name    string    `json:"name"` // "" for the weights that the engine was opened with
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	// LoadSeconds is how long they were loaded alongside the run, WaitSeconds how long they then waited, and
	// StopSeconds how long the device did nothing.
	LoadSeconds float64 `json:"load_seconds"`
	WaitSeconds float64 `json:"wait_seconds"`
	StopSeconds float64 `json:"stop_seconds"`
	Bytes       int64   `json:"bytes"`
	Restarted   int     `json:"restarted,omitempty"` // completions that were started again
	Continued   int     `json:"continued,omitempty"` // completions whose later tokens have these weights
}

// New makes the watcher of a job; nil if it does not watch.
func New(p *process.Process, j *spec.Job) *Watcher {
	if j.Watch == "" {
		return nil
	}
	return &Watcher{place: j.Watch, policy: engine.Policy(j.OnSwap), process: p}
}

// Taken returns the weights that engines took, in order.
func (w *Watcher) Taken() []Taken {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Taken(nil), w.taken...)
}

func (w *Watcher) note(t Taken) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken = append(w.taken, t)
}

// Serve has the engine of a session take the newest weights, before it returns, and newer ones until stop.
func (w *Watcher) Serve(ctx context.Context, s *process.Session) (stop func(), err error) {
	if w == nil {
		return func() {}, nil
	}
	engine, ok := s.Sampler.(interface {
		Swap(context.Context, *models.Checkpoint, engine.Policy) (engine.Swapped, error)
	})
	if !ok || s.Checkpoint == nil {
		return nil, errors.New("this engine cannot take other weights")
	}
	w.swap = engine.Swap
	before := w.layers
	w.now, w.layers, w.last = s.Checkpoint, nil, ""
	w.note(Taken{Version: s.Fingerprint, Time: time.Now()})
	w.again(ctx, before)
	w.look(ctx)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(w.process.Timing.WatchEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				w.look(ctx)
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}, nil
}

// again gives an engine that was opened again the weights that the last one had, one layer after the other.
func (w *Watcher) again(ctx context.Context, layers []layer) {
	for _, l := range layers {
		if l.Close(); ctx.Err() == nil {
			w.take(ctx, l.name)
		}
	}
}

// look takes the newest weights, if there are any that are newer than those looked at last.
func (w *Watcher) look(ctx context.Context) {
	name, err := newest(ctx, w.place)
	switch {
	case ctx.Err() != nil:
	case err != nil && !errors.Is(err, os.ErrNotExist):
		w.process.Log.Warn("looking for weights", "place", storage.Redact(w.place), "err", err)
	case name != "" && older(w.last, name):
		w.take(ctx, name)
	}
}

// take has the engine take weights. Weights that it cannot take are left out.
func (w *Watcher) take(ctx context.Context, name string) {
	w.last = name
	err := w.open(ctx, name, func(next *models.Checkpoint) error {
		swapped, err := w.swap(ctx, next, w.policy)
		if err == nil {
			w.note(Taken{Name: name, Version: swapped.Version, Time: time.Now(), Bytes: swapped.Bytes,
				LoadSeconds: swapped.Load.Seconds(), WaitSeconds: swapped.Wait.Seconds(),
				StopSeconds: swapped.Stop.Seconds(), Restarted: swapped.Restarted, Continued: swapped.Continued})
			w.process.Statusf("weights %s (%.12s) are taken: loaded in %.2fs, the device stood still for %.1fms", name,
				swapped.Version, swapped.Load.Seconds(), 1000*swapped.Stop.Seconds())
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		w.process.Printf("warning: weights %s are left out: %v", name, err)
	}
}

// open opens weights for swap to use, and keeps what is open of the weights that the engine has then.
func (w *Watcher) open(ctx context.Context, name string, swap func(*models.Checkpoint) error) error {
	dir, done, err := w.fetch(ctx, name)
	if err != nil {
		return err
	}
	defer done() // mapped files stay readable
	next, err := models.OpenUpdate(dir, w.now)
	if err != nil {
		return err
	}
	layers := next.Layers()
	opened := layer{name, layers[len(layers)-1]}
	if next.FingerPrint() == w.now.FingerPrint() {
		return opened.Close()
	}
	if err := swap(next); err != nil {
		return errors.Join(err, opened.Close())
	}
	w.now = next
	var kept []layer
	for _, l := range append(w.layers, opened) {
		if !slices.Contains(layers, l.Checkpoint) {
			_ = l.Close() // only read
			continue
		}
		kept = append(kept, l)
	}
	w.layers = kept
	return nil
}

// fetch brings the folder of weights to this machine. done removes what was fetched.
func (w *Watcher) fetch(ctx context.Context, name string) (dir string, done func(), err error) {
	place := storage.Join(w.place, name)
	if !storage.IsRemote(w.place) {
		return filepath.Join(w.place, name), func() {}, nil
	}
	cache, err := setup.CacheDir()
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", nil, err
	}
	temp, err := os.MkdirTemp(cache, "weights-")
	if err != nil {
		return "", nil, err
	}
	done = func() { _ = os.RemoveAll(temp) }
	dir, err = storage.FetchFolder(ctx, place, temp, func(file string) bool {
		return models.IsWeights(file) || filepath.Ext(file) == ".json"
	}, storage.ProgressLines(w.process.Messages))
	if err != nil {
		done()
		return "", nil, fmt.Errorf("fetching it: %w", err)
	}
	return dir, done, nil
}
