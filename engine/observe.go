package engine

// Call is what one call of the device came to, for [Config.Observe].
type Call struct {
	PrefillSteps, DecodeSteps int
	Tokens                    int     // drawn
	Seconds                   float64 // in which the device ran the program
	Active, Waiting           int     // sequences in slots, and requests that wait for one
	FreePages, FewestFree     int     // when the call ended, and after any of its steps
}

// observe tells those who watch of a call.
func (e *Engine) observe(c Call, freePages []int32) {
	if e.cfg.Observe != nil {
		e.cfg.Observe(c)
	}
	e.log.Debug("call", "prefill_steps", c.PrefillSteps, "decode_steps", c.DecodeSteps, "tokens", c.Tokens, "seconds",
		c.Seconds, "active", c.Active, "waiting", c.Waiting, "free_pages", freePages)
}
