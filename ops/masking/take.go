package masking

// Take returns the changes that the device does not have yet, as many as a call takes: first the rows placed last, then
// those that they may reach soon. more reports that some of the first are left. The patch is valid until the next Take.
func (a *Arena) Take() (p *Patch, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := taking{Arena: a, Patch: again(a.patch), maskOf: map[int32]bool{}}
	if a.stale {
		t.Clear[0], a.stale = 1, false
	}
	for _, row := range a.present {
		more = a.isDirty[row] && !t.take(row) || more
	}
	for _, row := range a.soon {
		if a.isDirty[row] && !t.take(row) {
			break
		}
	}
	left := a.dirtyStates[:0]
	for _, row := range a.dirtyStates {
		if a.isDirty[row] && !t.take(row) {
			left = append(left, row)
		}
	}
	a.dirtyStates = left
	if t.states == 0 {
		t.Next = nil
	}
	if len(t.maskOf) == 0 {
		t.Bits = nil
	}
	return t.Patch, more
}

// taking is a patch that is being made.
type taking struct {
	*Arena
	*Patch
	states int
	maskOf map[int32]bool // that are in it
}

// take puts a row into the patch, with its mask if the device lacks it. It returns false if there is no room.
func (t *taking) take(row int32) bool {
	mask, _, known := Info(t.info[row])
	lacks := known && t.maskIsDirty[mask]
	if t.states == len(t.Patch.States) || lacks && len(t.maskOf) == len(t.Patch.Masks) {
		return false
	}
	if lacks {
		k := len(t.maskOf)
		t.maskOf[mask] = true
		t.Patch.Masks[k] = mask
		copy(t.Bits[k*t.Words:][:t.Words], t.bits[int(mask)*t.Words:])
		t.maskIsDirty[mask] = false
	}
	k := t.states
	t.states++
	t.Patch.States[k], t.Patch.Info[k] = row, t.info[row]
	copy(t.Next[k*Width:][:Width], t.next[int(row)*Width:])
	t.isDirty[row] = false
	return true
}
