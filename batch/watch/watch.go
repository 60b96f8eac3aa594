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
	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/adapter"
)

// Watcher takes new weights for a job, in one engine after the other if the device fails. One goroutine uses it, but
// for what mu guards.
type Watcher struct {
	place   string
	policy  engine.Policy
	process *process.Process
	swap    func(context.Context, *models.Checkpoint, engine.Policy) (engine.Swapped, error)

	last   string             // the newest name of the weights that the engine has
	failed string             // the newest name of weights that it could not take
	base   *models.Checkpoint // that the engine was opened with
	now    *models.Checkpoint // of the engine
	layers []layer            // of now, the oldest first; without base

	mu    sync.Mutex
	taken []Taken
	names map[string][]string // the layers of versions that the engine has, or may soon have
}

// swapper is an engine whose weights can be replaced.
type swapper interface {
	Swap(context.Context, *models.Checkpoint, engine.Policy) (engine.Swapped, error)
}

// layer is a checkpoint that was opened here, and its name.
type layer struct {
	name string
	*models.Checkpoint
	isAdapter bool // its tensors are the model's with an adapter folded in
}

// over returns the layer over those before it. An adapter is over the job's model, base, alone.
func (l layer) over(base, below *models.Checkpoint) *models.Checkpoint {
	if l.isAdapter {
		below = base
	}
	return l.Over(below)
}

// Taken is weights that the engine took.
type Taken = telemetry.Weights

// New makes the watcher of a job; nil if it does not watch.
func New(p *process.Process, j *spec.Job) *Watcher {
	if j.Watch == "" {
		return nil
	}
	return &Watcher{place: j.Watch, policy: engine.Policy(j.OnSwap), process: p,
		names: map[string][]string{}}
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
	w.process.Observer.Run.Took(t)
}

// Serve has the engine of a session take the newest weights, before it returns, and newer ones until stop.
func (w *Watcher) Serve(ctx context.Context, s *process.Session) (stop func(), err error) {
	if w == nil {
		return func() {}, nil
	}
	if info, err := os.Stat(w.place); !storage.IsRemote(w.place) && err == nil && !info.IsDir() {
		return nil, setting.Errorf("`watch` is %s, which is no folder: give the folder where a trainer puts "+
			"checkpoints", w.place)
	}
	engine, ok := s.Sampler.(swapper)
	if !ok || s.Checkpoint == nil {
		return nil, errors.New("this engine cannot take other weights")
	}
	w.swap = engine.Swap
	w.closeAll()
	w.base, w.now, w.last, w.failed = s.Checkpoint, s.Checkpoint, "", ""
	w.note(Taken{Version: s.Fingerprint, Time: time.Now()})
	if _, err := os.Stat(w.place); !storage.IsRemote(w.place) && errors.Is(err, os.ErrNotExist) {
		w.process.Printf("warning: there is no folder %s to watch yet: the model's own weights generate until it has "+
			"others", w.place)
	}
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

// look has the engine take the weights that came since it took some last.
func (w *Watcher) look(ctx context.Context) {
	names, err := published(ctx, w.place)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, os.ErrNotExist) {
			w.process.Log.Warn("looking for weights", "place", storage.Redact(w.place), "err", err)
		}
		return
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !older(w.last, name) })
	if len(names) == 0 {
		return
	}
	newest := names[len(names)-1]
	if newest == w.failed { // with newer ones it is tried again
		return
	}
	if err := w.take(ctx, names); err == nil {
		w.last = newest
	} else if ctx.Err() == nil {
		w.failed = newest
		w.process.Printf("warning: weights %s are not taken: %v", newest, err)
	}
}

// take has the engine take weights, the later over the earlier.
func (w *Watcher) take(ctx context.Context, names []string) error {
	opened := w.open(ctx, names)
	next := w.now
	for _, l := range opened {
		next = l.over(w.base, next)
	}
	var err error
	if len(opened) > 0 { // also if the version is the same, which depends on samples of the tensors
		w.name(next, append(w.layers, opened...))
		err = w.swapTo(ctx, opened[len(opened)-1].name, next)
	}
	if err != nil {
		next = w.now
	}
	w.now = next
	w.layers = slices.DeleteFunc(append(w.layers, opened...), func(l layer) bool {
		gone := !slices.Contains(next.Layers(), l.Checkpoint)
		if gone {
			_ = l.Close() // only read
		}
		return gone
	})
	return err
}

func (w *Watcher) swapTo(ctx context.Context, name string, next *models.Checkpoint) error {
	s, err := w.swap(ctx, next, w.policy)
	if err != nil {
		return err
	}
	w.note(Taken{Name: name, Version: s.Version, Time: time.Now(), Bytes: s.Bytes, LoadSeconds: s.Load.Seconds(),
		WaitSeconds: s.Wait.Seconds(), StopSeconds: s.Stop.Seconds(), Restarted: s.Restarted, Continued: s.Continued})
	w.process.Statusf("weights %s (%.12s) are taken: loaded in %.2fs, the device stood still for %.1fms", name,
		s.Version, s.Load.Seconds(), 1000*s.Stop.Seconds())
	return nil
}

// open opens weights, and returns the newest that is an adapter or has all tensors, and those after it. Weights that do
// not fit the model are left out.
func (w *Watcher) open(ctx context.Context, names []string) (list []layer) {
	for _, name := range slices.Backward(names) {
		l, err := w.openOver(ctx, name, w.base, w.now)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			w.process.Printf("warning: weights %s are left out: %v", name, err)
			continue
		}
		list = append(list, l)
		if l.isAdapter || l.Covers(w.now) {
			break
		}
	}
	slices.Reverse(list)
	return list
}

// name notes the names of the layers of a checkpoint, before an engine takes it.
func (w *Watcher) name(c *models.Checkpoint, open []layer) {
	var names []string
	for _, l := range open {
		if slices.Contains(c.Layers(), l.Checkpoint) {
			names = append(names, l.name)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[c.FingerPrint()] = names
}

// Names returns the names of the weights that a version of the engine consists of, the later over the earlier and all
// over the job's model.
func (w *Watcher) Names(version string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names[version]
}

// openOver opens weights that fit the job's model, base: an adapter of it, or tensors over others.
func (w *Watcher) openOver(ctx context.Context, name string, base, below *models.Checkpoint) (l layer, err error) {
	dir, done, err := w.fetch(ctx, name)
	if err != nil {
		return layer{}, err
	}
	defer done() // mapped files stay readable
	l.name = name
	if _, err := os.Stat(filepath.Join(dir, adapter.ConfigFile)); err == nil {
		l.isAdapter = true
		l.Checkpoint, err = openAdapter(dir, base)
		if err != nil {
			return layer{}, err
		}
	} else if l.Checkpoint, err = models.OpenUpdate(dir, below); err != nil {
		return layer{}, err
	}
	if err := l.over(base, below).Fits(below); err != nil {
		_ = l.Close()
		return layer{}, err
	}
	return l, nil
}

// openAdapter returns the matrices of the model with an adapter folded in.
func openAdapter(dir string, model *models.Checkpoint) (*models.Checkpoint, error) {
	a, err := adapter.Open(dir, &model.Config)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return a.Merged(model)
}

func (w *Watcher) closeAll() {
	for _, l := range w.layers {
		_ = l.Close()
	}
	w.layers = nil
}

// fetch brings the folder of weights to this machine. done removes what was fetched.
func (w *Watcher) fetch(ctx context.Context, name string) (dir string, done func(), err error) {
	place := storage.Join(w.place, name)
	if !storage.IsRemote(w.place) {
		if info, err := os.Stat(place); err != nil || !info.IsDir() {
			return "", nil, fmt.Errorf("%s is no folder, and %s is there: put the folder there before", place,
				name+readySuffix)
		}
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
