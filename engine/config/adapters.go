package config

import (
	"errors"

	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/models/decoder"
)

// If nothing says how many adapters there is room for, those on the device are at least fewestAdapters, and as many as
// take a share of the weights' memory.
const (
	fewestAdapters = 16
	adapterShare   = 4
)

// settleAdapters finds how many adapters there is room for.
func settleAdapters(s *Settled) error {
	c := s.Config
	switch {
	case len(c.Adapters) == 0 && c.AdapterSlots == 0:
		return nil
	case c.AdapterSlots < 0:
		return setting.Errorf("`adapter-slots` is %d, but must be 0 (found automatically) or more", c.AdapterSlots)
	case len(c.Adapters) == 0:
		return setting.Errorf("`adapter-slots` is %d, and there are no adapters: name them with `adapter`",
			c.AdapterSlots)
	case c.Hosts != nil:
		return errors.New("adapters of a model on several hosts are not supported")
	}
	for _, a := range c.Adapters {
		if err := a.ForRows(c.Model); err != nil {
			return err
		}
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
		slots = max(fewestAdapters, int(s.WeightBytes/adapterShare/max(1, one)))
	}
	s.Sizes.Adapters = min(slots, len(c.Adapters))
	s.AdapterBytes = one * int64(s.Sizes.Adapters)
	return nil
}

func adapterBytes(arrays []decoder.AdapterArray) (n int64) {
	for _, a := range arrays {
		n += int64(a.Shape.Memory())
	}
	return n
}
