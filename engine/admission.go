package engine

import (
	"math"

	"github.com/quire/quire/stopping"
)

// Admission says how pages are reserved for sequences.
type Admission string

const (
	// Reserve admits a sequence when pages are there for the longest that it may become. Nothing is ever swapped out.
	Reserve Admission = "reserve"
	// Overcommit admits a sequence when pages are there for its prompt. Where pages run out, the sequences admitted
	// last are swapped out to the host's memory, and go on from there when others have ended, with the very same
	// tokens.
	Overcommit Admission = "overcommit"
)

// admission decides which requests are run, and makes what the host keeps with them. It uses no device.
type admission struct {
	cfg      Config
	plan     Plan
	stops    stops
	masks    masks
	breakers breakers
}

// open makes what requests share, by the config and the plan.
func (a *admission) open() {
	a.stops.sets = map[string]*stopping.Set{}
	if a.plan.stops != nil {
		a.stops.states = a.plan.stops.Next.Dimensions[0]
		_, a.stops.pieces = a.cfg.stopTables()
	}
	a.masks = newMasks(a.cfg, a.plan.masks)
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
	p := Plan{MaxModelLen: cfg.MaxModelLen, PageSize: 1, Pages: math.MaxInt32}
	orDefault(&p.MaxModelLen, cfg.Model.Config.MaxPositions)
	p.stops, _ = cfg.stopTables()
	p.masks = cfg.maskSizes(max(cfg.MaxSeqs, defaultMaxSeqs))
	c := &Checker{admission{cfg: cfg, plan: p}}
	c.open()
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
