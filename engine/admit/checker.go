package admit

import (
	"cmp"
	"math"

	"github.com/quire/quire/engine/adapters"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/masks"
	"github.com/quire/quire/models"
	"github.com/quire/quire/text/tokenizer"
)

// Limits bound what a request may ask of an engine.
type Limits struct {
	MaxModelLen     int
	PageSize, Pages int
	ShortRope       int // see config.Settled; 0 if there is one rope
	Masks           feature.MaskSizes
	Adapters        int   // low-rank adapters that there is room for
	CannotHold      error // see config.Settled
}

// Checker finds the requests that an engine rejects, and makes what the host keeps with the others.
type Checker struct {
	owner    Owner
	model    models.Config
	limits   Limits
	stops    *stops
	masks    *masks.Masks
	breakers *breakers
	adapters *adapters.Pool // nil without adapters

	allHidden bool // completions have hidden states of all tokens
}

// New makes the checker of an engine. It needs neither the engine's backend nor the model's weights.
func New(cfg config.Config, limits Limits) *Checker {
	return &Checker{model: cfg.Model.Config, limits: limits,
		stops: newStops(config.StopTables(cfg)), masks: masks.New(cfg.Model.Config, cfg.Tokenizer, limits.Masks),
		breakers: newBreakers(cfg.Model.Config, cfg.Tokenizer, limits.MaxModelLen),
		adapters: adapters.New(cfg.Adapters, limits.Adapters), allHidden: cfg.Hidden.All}
}

// NewWithoutPlan makes the checker of an engine that is not there. It assumes that the KV cache has room for each
// request.
func NewWithoutPlan(cfg config.Config) *Checker {
	return New(cfg, Limits{MaxModelLen: cmp.Or(cfg.MaxModelLen, cfg.Model.Config.MaxPositions), PageSize: 1,
		Pages: math.MaxInt32, Masks: config.MaskSizes(cfg, max(cfg.MaxSeqs, config.DefaultMaxSeqs))})
}

// Owner is the engine that contexts belong to.
func (c *Checker) Owner() *Owner { return &c.owner }

// StopStates is how many states of automata for stops there is room for.
func (c *Checker) StopStates() int { return c.stops.states }

// Adapters is the room for low-rank adapters; nil if requests can have none.
func (c *Checker) Adapters() *adapters.Pool { return c.adapters }

// Masks are the machines of requests.
func (c *Checker) Masks() *masks.Masks { return c.masks }

// Pieces are the texts of the tokens as the tables of stops have them; nil if the device looks for no strings.
func (c *Checker) Pieces() *tokenizer.Pieces { return c.stops.pieces }

// maxLen is the most tokens, prompt and completion, that a completion of r may reach.
func (c *Checker) maxLen(r *Request) int {
	return min(len(r.Tokens)+max(r.MaxTokens, 1), c.limits.MaxModelLen)
}

// pagesFor is how many pages hold the keys and values of a sequence of maxLen tokens: the last token is generated, but
// never fed.
func (c *Checker) pagesFor(maxLen int) int {
	return ceilDiv(maxLen-1, c.limits.PageSize)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
