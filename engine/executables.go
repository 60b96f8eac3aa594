package engine

import "github.com/gomlx/compute"

// Executables returns the compiled programs by their names in Plan.Programs, to be looked at: they stay the engine's.
func (e *Engine) Executables() map[string]compute.Executable {
	all := make(map[string]compute.Executable, len(e.programs))
	for name, p := range e.programs {
		all[name] = p.Executable
	}
	return all
}
