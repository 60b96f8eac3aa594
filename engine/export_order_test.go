package engine

// TakeInOrder lets each call of the following runs wait for requests, so that what is run with what, and all counts,
// are the same each time, whatever else the machine does.
func (e *Engine) TakeInOrder(on bool) { e.runs.inOrder = on }
