package config

import (
	"errors"

	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/models/adapter"
	"github.com/quire/quire/models/decoder"
)

// Adapter is a low-rank adapter by the name that requests give it.
type Adapter struct {
	Name string
	*adapter.Adapter
}

// adapterShare is the share of the weights' memory that adapters take if nothing says how many there is room for.
const adapterShare = 4

// settleAdapters finds how many adapters there is room for.
func (s *Settled) settleAdapters() error {
	c := s.Config
	switch {
	case len(c.Adapters) == 0 && c.AdapterSlots == 0:
		return nil
	case c.AdapterSlots < 0:
		return setting.Errorf("`adapter-slots` is %d, but must be 0 (found automatically) or more", c.AdapterSlots)
	case len(c.Adapters) == 0:
		return setting.Errorf("`adapter-slots` is %d, and there are no adapters: name them with `adapter`",
			c.AdapterSlots)
	case s.Devices > 1:
		return setting.Errorf("adapters of a model on several devices are not supported: use `tp` 1, or fold one " +
			"adapter into the weights with `merge-adapter`")
	case c.Hosts != nil:
		return errors.New("adapters of a model on several hosts are not supported")
	}
	for _, a := range c.arrays() {
		if f, ok := a.Matrix(); ok && f.InSlices() {
			return setting.Errorf("adapters of matrices in blocks as large as %s are not supported on this backend: "+
				"hold the weights as floats, `weights` bf16", a.Name)
		}
	}
	one := adapterBytes(c.adapterArrays(1))
	slots := c.AdapterSlots
	if slots == 0 {
		slots = max(1, int(s.WeightBytes/adapterShare/max(1, one)))
	}
	s.Sizes.Adapters = min(slots, len(c.Adapters))
	s.AdapterBytes = one * int64(s.Sizes.Adapters)
	return nil
}

// adapterArrays are the arrays of adapters, with room for so many.
func (c Config) adapterArrays(slots int) []decoder.AdapterArray {
	if slots == 0 {
		return nil
	}
	rank := 0
	for _, a := range c.Adapters {
		rank = max(rank, a.Rank)
	}
	adapts := func(tensor string) bool {
		for _, a := range c.Adapters {
			if a.Adapts(tensor) {
				return true
			}
		}
		return false
	}
	return decoder.AdapterArrays(c.model(), c.storage(), slots, rank, adapts)
}

func adapterBytes(arrays []decoder.AdapterArray) (n int64) {
	for _, a := range arrays {
		n += int64(a.Shape.Memory())
	}
	return n
}
