// Package prefixes keeps the keys and values of prefixes for the requests that begin with them: on the device by name,
// in the host's memory, pinned if a caller wants, and in files (snapshots).
package prefixes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/prefix"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/turns"
)

// Prefixes are the pages that are kept for requests that begin with the same tokens: names of the device's pages, and
// copies on the host, some of them pinned.
type Prefixes struct {
	core    *core.Core
	swapper *core.Swapper
	lock    *turns.Lock
	sizes   device.Sizes
	run     Runner
	Index   *prefix.Index       // names of the device's pages; nil without a prefix cache
	Host    *schedule.HostCache // nil without Config.HostKVMemory
	Seed    prefix.Hash         // begins the names of pages
}

// Runner runs the tokens of a prefix, so that the device has its pages; long with the long divisors of a longrope.
type Runner func(ctx context.Context, tokens []int32, long bool) error

// New makes the prefixes of an engine.
func New(c *core.Core, swapper *core.Swapper, lock *turns.Lock, run Runner) *Prefixes {
	p := &Prefixes{core: c, swapper: swapper, lock: lock, sizes: c.Settled.Sizes, run: run,
		Seed: c.Settled.PrefixSeed(c.Version())}
	if p.sizes.PrefixCache {
		p.Index = prefix.NewIndex(p.sizes.Pages)
	}
	if host := c.Settled.Config.HostKVMemory; p.sizes.Transfers && host > 0 {
		p.Host = schedule.NewHostCache(host)
	}
	return p
}

// ReplaceWeights begins the names of pages with another seed, after the weights were replaced for the n-th time. All
// prefixes are forgotten: they are what earlier weights computed.
func (p *Prefixes) ReplaceWeights(n int) {
	p.Seed = p.core.Settled.PrefixSeed(fmt.Sprint(p.core.Version(), " ", n))
	p.Forget()
	if p.Host != nil {
		p.Host.Clear()
	}
}

// Forget gives up the names of all pages, because their contents are no longer known.
func (p *Prefixes) Forget() {
	if p.Index != nil {
		p.Index.Clear()
	}
}

// ErrNotPinned means that no such prefix is pinned.
var ErrNotPinned = errors.New("the prefix is not pinned")

// Pin keeps the keys and values of the full pages of a prefix for every prompt that begins with it, and returns
// how many tokens these are. It runs the tokens, if they are not there already. On the device a pinned prefix makes way
// like any other; in the host's memory, which it comes back from, it stays until Unpin. To keep one on the
// device, flush it in a context. Of a model with a longrope it is kept for sequences that have the divisors of one of
// its own length.
//
// It returns [ErrNoHostMemory] if Config.HostKVMemory has no room for it in addition to what is pinned and saved, and
// [admit.ErrInvalidRequest] for less than a page. While Run is under way it returns [turns.ErrRunning].
func (p *Prefixes) Pin(ctx context.Context, tokens []int32) (pinned int, err error) {
	err = p.lock.Alone(func() error {
		blocks, chain, err := p.keep(ctx, tokens, p.core.Settled.IsShort(len(tokens)+2))
		if err == nil {
			p.Host.Pin(chain[len(chain)-1], blocks)
			pinned = len(chain) * p.sizes.PageSize
		}
		return err
	})
	return pinned, err
}

// Unpin lets a prefix go that Pin or Load keep, once its room is wanted: tokens are those given to
// the one, or returned by the other. It returns [ErrNotPinned], and while Run is under way [turns.ErrRunning].
func (p *Prefixes) Unpin(tokens []int32) error {
	return p.lock.Alone(func() error {
		for _, seed := range []prefix.Hash{p.Seed, schedule.ShortSeed(p.Seed)} {
			chain := prefix.Chain(seed, tokens, p.sizes.PageSize)
			if p.Host != nil && len(chain) > 0 && p.Host.Unpin(chain[len(chain)-1]) {
				return nil
			}
		}
		return fmt.Errorf("%w: %d tokens", ErrNotPinned, len(tokens))
	})
}

// keep leaves the full pages of tokens with the host, and returns the blocks that have them, and their names. short is
// [schedule.Request].Short.
func (p *Prefixes) keep(ctx context.Context, tokens []int32, short bool) ([]*schedule.Kept, []prefix.Hash, error) {
	if p.Host == nil {
		return nil, nil, fmt.Errorf("%w: give the engine some to keep a prefix (see HostKVMemory)", ErrNoHostMemory)
	}
	n := len(tokens) / p.sizes.PageSize * p.sizes.PageSize
	if n == 0 {
		return nil, nil, fmt.Errorf("%w: %d tokens are less than a page of %d", admit.ErrInvalidRequest, len(tokens),
			p.sizes.PageSize)
	}
	seed := p.Seed
	if short {
		seed = schedule.ShortSeed(seed)
	}
	chain := prefix.Chain(seed, tokens[:n], p.sizes.PageSize)
	blocks, end := p.Host.Blocks(chain, 0, device.BlockPages)
	if end == len(chain) {
		return blocks, chain, nil
	}
	if p.Index == nil {
		return nil, nil, fmt.Errorf("%w: the prefix cache is off", admit.ErrInvalidRequest)
	}
	if err := p.run(ctx, append(slices.Clone(tokens[:n]), tokens[n-1]), !short); err != nil {
		return nil, nil, err
	}
	blocks, err := p.keepNamed(chain)
	return blocks, chain, err
}

// keepNamed copies the pages of a chain, which are on the device, to the host, unless they are there already.
func (p *Prefixes) keepNamed(chain []prefix.Hash) (blocks []*schedule.Kept, err error) {
	c := p.Host
	defer func() {
		for _, k := range blocks {
			c.Unuse(k)
		}
		if err != nil {
			blocks = nil
		}
	}()
	pages := p.Index.Longest(chain)
	for from := 0; from < len(chain); from += device.BlockPages {
		to := min(len(chain), from+device.BlockPages)
		k, end := c.Blocks(chain[:to], from, device.BlockPages)
		if end < to {
			bytes := p.core.BytesOnHost(device.BlockPages * p.sizes.PageSize)
			if len(pages) < to || !c.Take(bytes) {
				return blocks, p.noHostMemory(len(chain) * p.sizes.PageSize)
			}
			b, err := p.swapper.Keep(pages[from:to])
			if err != nil {
				c.Give(bytes)
				return blocks, err
			}
			k = []*schedule.Kept{{Chain: chain[from:to], From: from, Block: b, Bytes: bytes}}
			c.Add(k[0])
		}
		c.Use(k[0]) // the blocks after it must not take its place
		blocks = append(blocks, k[0])
	}
	return blocks, nil
}

// noHostMemory is the error if a prefix of n tokens finds no room.
func (p *Prefixes) noHostMemory(n int) error {
	return fmt.Errorf(
		"%w: %d bytes are needed for a prefix of %d tokens, and of %d there are %d beside what is pinned or saved",
		ErrNoHostMemory, p.core.BytesOnHost(n), n, p.Host.Limit(), p.Host.Left())
}
