package masking

// Remembered counts the masks that the host remembers.
func (a *Arena) Remembered() int { return len(a.pool.masks) }
