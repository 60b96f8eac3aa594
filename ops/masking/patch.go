package masking

// Patch is the host's PatchOf.
type Patch = PatchOf[[]int32, []uint32]

// NewPatch makes a patch of nothing.
func (s Sizes) NewPatch() *Patch {
	p := &Patch{Clear: make([]int32, 1), States: make([]int32, s.PatchStates),
		Next: make([]int32, s.PatchStates*Width),
		Info: make([]int32, s.PatchStates), Masks: make([]int32, s.PatchMasks),
		Bits: make([]uint32, s.PatchMasks*s.Words)}
	return again(p)
}

// again is a patch of nothing in the memory of another.
func again(p *Patch) *Patch {
	q := *p
	clear(q.Clear)
	for _, list := range [][]int32{q.States, q.Masks} {
		for i := range list {
			list[i] = -1
		}
	}
	return &q
}
