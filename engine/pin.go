package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/prefix"
	"github.com/quire/quire/sampling"
)

// ErrNotPinned says that no such prefix is pinned, to be told by errors.Is.
var ErrNotPinned = errors.New("the prefix is not pinned")

// PinPrefix keeps the keys and values of the full pages of a prefix for every prompt that begins with it, and returns
// how many tokens these are. It runs the tokens, if they are not there already. On the device a pinned prefix makes way
// like any other; in the host's memory, which it comes back from, it stays until UnpinPrefix. To keep one on the
// device, flush it in a context. Of a model with a longrope it is kept for sequences that have the divisors of one of
// its own length.
//
// It returns [ErrNoHostMemory] where Config.HostKVMemory does not hold it beside what is pinned and saved, and
// [ErrInvalidRequest] for less than a page. While Run is under way it returns [ErrRunning].
func (e *Engine) PinPrefix(ctx context.Context, tokens []int32) (pinned int, err error) {
	err = e.alone(func() error {
		blocks, chain, err := e.keepPrefix(ctx, tokens, e.settled.IsShort(len(tokens)+2))
		if err == nil {
			e.hostCache.Pin(chain[len(chain)-1], blocks)
			pinned = len(chain) * e.plan.PageSize
		}
		return err
	})
	return pinned, err
}

// UnpinPrefix lets a prefix go that PinPrefix or LoadPrefix keep, once its room is wanted: tokens are those given to
// the one, or returned by the other. It returns [ErrNotPinned], and while Run is under way [ErrRunning].
func (e *Engine) UnpinPrefix(tokens []int32) error {
	return e.alone(func() error {
		for _, seed := range []prefix.Hash{e.prefixSeed, schedule.ShortSeed(e.prefixSeed)} {
			chain := prefix.Chain(seed, tokens, e.plan.PageSize)
			if e.hostCache != nil && len(chain) > 0 && e.hostCache.Unpin(chain[len(chain)-1]) {
				return nil
			}
		}
		return fmt.Errorf("%w: %d tokens", ErrNotPinned, len(tokens))
	})
}

// keepPrefix leaves the full pages of tokens with the host, and returns the blocks that have them, and their names.
// short is as of a [schedule.Request].
func (e *Engine) keepPrefix(ctx context.Context, tokens []int32, short bool) ([]*schedule.Kept, []prefix.Hash, error) {
	if e.hostCache == nil {
		return nil, nil, fmt.Errorf("%w: give the engine some to keep a prefix (see HostKVMemory)", ErrNoHostMemory)
	}
	n := len(tokens) / e.plan.PageSize * e.plan.PageSize
	if n == 0 {
		return nil, nil, fmt.Errorf("%w: %d tokens are less than a page of %d", ErrInvalidRequest, len(tokens),
			e.plan.PageSize)
	}
	seed := e.prefixSeed
	if short {
		seed = schedule.ShortSeed(seed)
	}
	chain := prefix.Chain(seed, tokens[:n], e.plan.PageSize)
	blocks, end := e.hostCache.Blocks(chain, 0, device.BlockPages)
	if end == len(chain) {
		return blocks, chain, nil
	}
	if e.index == nil {
		return nil, nil, fmt.Errorf("%w: the prefix cache is off", ErrInvalidRequest)
	}
	r := &Request{ID: "prefix", Tokens: append(slices.Clone(tokens[:n]), tokens[n-1]), N: 1, MaxTokens: 1,
		Sampling: sampling.Settings{TopP: 1}, IgnoreEOS: true, long: !short}
	for c, err := range e.runAlone(ctx, nil, slices.Values([]*Request{r})) {
		if err == nil {
			err = c.Err
		}
		if err != nil {
			return nil, nil, err
		}
	}
	blocks, err := e.keepNamed(chain)
	return blocks, chain, err
}

// keepNamed copies the pages of a chain, which are on the device, to the host, where they are not there already.
func (e *Engine) keepNamed(chain []prefix.Hash) (blocks []*schedule.Kept, err error) {
	c := e.hostCache
	defer func() {
		for _, k := range blocks {
			c.Unuse(k)
		}
		if err != nil {
			blocks = nil
		}
	}()
	pages := e.index.Longest(chain)
	for from := 0; from < len(chain); from += device.BlockPages {
		to := min(len(chain), from+device.BlockPages)
		k, end := c.Blocks(chain[:to], from, device.BlockPages)
		if end < to {
			bytes := e.bytesOnHost(device.BlockPages * e.plan.PageSize)
			if len(pages) < to || !c.Take(bytes) {
				return blocks, e.noHostMemory(len(chain) * e.plan.PageSize)
			}
			b, err := e.swapper.keep(pages[from:to])
			if err != nil {
				c.Give(bytes)
				return blocks, err
			}
			k = []*schedule.Kept{{Chain: chain[from:to], From: from, Block: b, Bytes: bytes}}
			c.Add(k[0])
		}
		c.Use(k[0]) // the blocks behind it must not take its place
		blocks = append(blocks, k[0])
	}
	return blocks, nil
}

// noHostMemory says that a prefix of n tokens finds no room.
func (e *Engine) noHostMemory(n int) error {
	return fmt.Errorf(
		"%w: %d bytes are needed for a prefix of %d tokens, and of %d there are %d beside what is pinned or saved",
		ErrNoHostMemory, e.bytesOnHost(n), n, e.hostCache.Limit(), e.hostCache.Left())
}
