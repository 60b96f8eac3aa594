package engine

import "github.com/quire/quire/engine/schedule"

// CountPrefill adds up how many prompt tokens the calls of runs run, for tests.
func (e *Engine) CountPrefill(n *int) {
	e.runs.watch = func(d schedule.Device) schedule.Device { return counted{d, n} }
}

type counted struct {
	schedule.Device
	n *int
}

func (c counted) Run(in *schedule.Input) (*schedule.Output, schedule.Spent, error) {
	out, spent, err := c.Device.Run(in)
	if err == nil {
		*c.n += int(out.PrefillTokens)
	}
	return out, spent, err
}
