package engine

// Followed lets f see what the engine is about to run as process 0 does, and change it.
func (e *Engine) Followed(f func(in map[string]any)) {
	e.inStep.observe = func(_ string, in hostInput) { f(in) }
}
