package engine

import (
	"cmp"
	"math"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/stopping"
)

// admission decides which requests are run, and makes what the host keeps with them. It uses no device.
type admission struct {
	cfg      Config
	plan     Plan
	settled  *config.Settled // nil for a Checker
	stops    stops
	masks    masks
	breakers breakers
}

// open makes what requests share, by the config and the plan.
func (a *admission) open(stops *device.StopTables, masks feature.MaskSizes) {
	a.stops.sets = map[string]*stopping.Set{}
	if stops != nil {
		a.stops.states = stops.Next.Dimensions[0]
		_, a.stops.pieces = config.StopTables(a.cfg)
	}
	a.masks = newMasks(a.cfg, masks)
}

// admit checks the whole request of a tag and fills in what is kept with it.
func (a *admission) admit(t *tag) (err error) {
	if err := a.check(t.whole); err != nil {
		return err
	}
	if t.stops, err = a.stopSets(t.whole); err != nil {
		return err
	}
	if t.masks, err = a.maskedRequest(t.whole); err != nil {
		return err
	}
	t.features = featuresOf(t.asked.Sampling)
	if t.masks != nil {
		t.features |= MaskedTokens
	}
	if t.biases = a.biasesOf(t.whole); t.biases != nil {
		t.features |= Biases
	}
	if t.whole.Thinking != nil {
		t.features |= Thinking
	}
	if t.features.Has(DRY) {
		t.breakers, err = a.breakersOf(t.whole)
	}
	return err
}

// Checker finds the requests that an engine would refuse, without a device. It assumes that the KV cache has room for
// each of them.
type Checker struct{ admission }

// NewChecker makes the checker of an engine with a config, of which it needs neither the backend nor the weights of the
// model.
func NewChecker(cfg Config) *Checker {
	p := Plan{MaxModelLen: cmp.Or(cfg.MaxModelLen, cfg.Model.Config.MaxPositions), PageSize: 1, Pages: math.MaxInt32}
	c := &Checker{admission{cfg: cfg, plan: p}}
	stops, _ := config.StopTables(cfg)
	c.open(stops, config.MaskSizes(cfg, max(cfg.MaxSeqs, 64)))
	return c
}

// Check returns the error with which an engine refuses a request, which has no context.
func (c *Checker) Check(r *Request) error {
	whole := r
	if r.MaxTokens == 0 {
		whole = scoresOnly(r)
	}
	return c.admit(&tag{asked: r, whole: whole})
}
