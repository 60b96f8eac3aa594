package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/prefix"
	"github.com/quire/quire/sampling"
)

// ErrNotPinned says that no such prefix is pinned, to be told by errors.Is.
var ErrNotPinned = errors.New("the prefix is not pinned")

// PinPrefix keeps the keys and values of the full pages of a prefix for every prompt that begins with it, and returns
// how many tokens these are. It runs the tokens, if they are not there already. On the device a pinned prefix makes way
// like any other; in the host's memory, which it comes back from, it stays until UnpinPrefix. To keep one on the
// device, commit it in a context.
//
// It returns [ErrNoHostMemory] where Config.HostKVMemory does not hold it beside what is pinned and saved, and
// [ErrInvalidRequest] for less than a page. While Run is under way it returns [ErrRunning].
func (e *Engine) PinPrefix(ctx context.Context, tokens []int32) (pinned int, err error) {
	err = e.alone(func() error {
		k, chain, err := e.keepPrefix(ctx, tokens)
		if err == nil {
			e.hostCache.Pin(chain[len(chain)-1], k)
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
		chain := prefix.Chain(e.prefixSeed, tokens, e.plan.PageSize)
		if e.hostCache == nil || len(chain) == 0 || !e.hostCache.Unpin(chain[len(chain)-1]) {
			return fmt.Errorf("%w: %d tokens", ErrNotPinned, len(tokens))
		}
		return nil
	})
}

// keepPrefix leaves the full pages of tokens with the host, and returns what holds them, and more perhaps, and their
// names.
func (e *Engine) keepPrefix(ctx context.Context, tokens []int32) (*schedule.Kept, []prefix.Hash, error) {
	if e.hostCache == nil {
		return nil, nil, fmt.Errorf("%w: give the engine some to keep a prefix (see HostKVMemory)", ErrNoHostMemory)
	}
	n := len(tokens) / e.plan.PageSize * e.plan.PageSize
	if n == 0 {
		return nil, nil, fmt.Errorf("%w: %d tokens are less than a page of %d", ErrInvalidRequest, len(tokens),
			e.plan.PageSize)
	}
	chain := prefix.Chain(e.prefixSeed, tokens[:n], e.plan.PageSize)
	if k, pages := e.hostCache.Longest(chain); pages == len(chain) {
		return k, chain, nil
	}
	// Two completions of one token: what they have in common is the prefix, which the run leaves with the host.
	e.keep = chain
	defer func() { e.keep = nil }()
	r := &Request{ID: "prefix", Tokens: append(slices.Clone(tokens[:n]), tokens[n-1]), N: 2, MaxTokens: 1,
		Sampling: sampling.Settings{TopP: 1}, IgnoreEOS: true}
	for c, err := range e.runAlone(ctx, slices.Values([]*Request{r})) {
		if err == nil {
			err = c.Err
		}
		if err != nil {
			return nil, nil, err
		}
	}
	k, pages := e.hostCache.Longest(chain)
	if pages < len(chain) {
		return nil, nil, e.noHostMemory(n)
	}
	return k, chain, nil
}

// noHostMemory says that a prefix of n tokens finds no room.
func (e *Engine) noHostMemory(n int) error {
	return fmt.Errorf(
		"%w: %d bytes are needed for a prefix of %d tokens, and of %d there are %d beside what is pinned or saved",
		ErrNoHostMemory, e.bytesOnHost(n), n, e.hostCache.Limit(), e.hostCache.Left())
}
