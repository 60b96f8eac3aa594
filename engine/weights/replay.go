package weights

import (
	"context"
	"fmt"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/turns"
	"github.com/quire/quire/models"
)

// Open opens the checkpoint of a version. It must stay open as for [Replacer.Load].
type Open func(ctx context.Context, version string) (*models.Checkpoint, error)

// Replay has a run take the weights that its requests name, each time when it can do nothing with those that it has.
// No other weights are taken until stop, which comes after the run.
func (r *Replacer) Replay(ctx context.Context, run *turns.Run, open Open) (stop func()) {
	r.mu.Lock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run.Do(func(between *schedule.Between) (later bool) {
			if version := between.Awaits(); version != "" {
				if err := r.bring(ctx, version, open, between); err != nil {
					between.Fail(err)
					return false
				}
			}
			return true
		})
	}()
	return func() {
		<-ended
		r.mu.Unlock()
	}
}

// bring has a run take a version. Nothing runs meanwhile.
func (r *Replacer) bring(ctx context.Context, version string, open Open, between *schedule.Between) error {
	checkpoint, err := open(ctx, version)
	if err != nil {
		return err
	}
	weights, err := r.core.LoadWeights(ctx, checkpoint)
	if err != nil {
		return err
	}
	if weights.Version != version {
		weights.Close()
		return fmt.Errorf("the weights of %s are of version %.12s, and %.12s is needed", checkpoint.Ref,
			weights.Version, version)
	}
	p := &Pending{replacer: r, weights: weights, loaded: r.core.Now(),
		swapped: Swapped{Version: version}}
	p.take(between, Continue).Close()
	return nil
}
