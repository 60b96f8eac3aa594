package plan

import (
	"errors"
	"maps"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/encode"
)

// account is what a job has on a device at once, in bytes: the arguments, outputs and temporaries of one program, the
// code of all, and what is there besides programs. The search, the report and its test add it up here.
type account struct {
	program   string // the program that needs most
	arrays    int64  // of that program, with its temporaries and what layouts pad
	temporary int64  // the part that are temporaries
	code      int64  // of all programs
	staging   int64  // blocks of pages on their way to the host and back
	later     int64  // arrays of features that rows may still ask for
}

// accountOf adds up programs of a plan.
func accountOf(plan engine.Plan, programs []Program) account {
	a := account{staging: plan.StagingBytes, later: plan.LaterFeatureBytes}
	if !plan.Transfers {
		a.staging = 0
	}
	for _, p := range programs {
		code := max(p.Memory.Code, 0)
		if arrays := p.Memory.Total - code; arrays > a.arrays {
			a.program, a.arrays, a.temporary = p.Name, arrays, p.Memory.Temporary
		}
		a.code += code
	}
	return a
}

// total is what the device must have.
func (a account) total() int64 { return a.arrays + a.code + a.staging + a.later }

// codeOfOthers is the share of the code of the largest program that the search leaves for the others. If they turn out
// to have more, pages are given up.
const codeOfOthers = 4

// ofTrial is the account if the largest program alone is known.
func (a account) ofTrial() account {
	a.code += a.code / codeOfOthers
	return a
}

// Encoder compiles the program of a job with an encoder of this config on each of the replicas, backends of package
// xla, of so many devices in all, and describes what it takes. There is nothing to search: an encoder has no KV cache.
func Encoder(config encode.Config, replicas []compute.Backend, devices int, o Options) (*Report, error) {
	p, err := New(engine.Config{}, replicas, devices, o)
	if err != nil {
		return nil, err
	}
	backend := p.backend
	if p.available, err = backend.FreeMemory(0); err != nil {
		return nil, err
	}
	config.Backend = backend
	start := time.Now()
	plan, program, err := encode.Precompile(config)
	if err == nil {
		defer program.Finalize()
	}
	var oom *xla.OutOfMemoryError
	if errors.As(err, &oom) {
		return nil, p.noRoom(plan, oom.Needed, err)
	}
	if err != nil {
		return nil, err
	}
	name := plan.Programs[0]
	r := &Report{Model: o.Model, Device: p.device(), Devices: devices, DeviceMemory: p.available, Plan: plan}
	if t, ok := backend.Topology(); ok {
		r.Topology = t.Name
	}
	r.Programs, err = programsOf([]engine.PrecompiledProgram{{Name: name, Executable: program,
		Seconds: time.Since(start).Seconds()}})
	if err != nil {
		return nil, err
	}
	if o.Compiled != nil {
		if err := o.Compiled(maps.All(map[string]compute.Executable{name: program})); err != nil {
			return nil, err
		}
	}
	a := accountOf(plan, r.Programs)
	r.Total, r.Temporary, r.Code, r.Weights = a.total(), a.temporary, a.code, plan.AllWeightBytes()
	r.Rest = a.arrays - a.temporary - r.Weights
	r.Kernels = backend.KernelUses()
	r.Warnings = kernelWarnings(r.Kernels)
	if r.Total > p.available && !backend.Traits().IsHost {
		return nil, p.noRoom(plan, r.Total, nil)
	}
	return r, nil
}

// noRoom is the error of an encoder that does not fit.
func (p *Planner) noRoom(plan engine.Plan, needed int64, cause error) error {
	text, available := sizes(needed, p.available)
	err := setting.Errorf("the encoder does not fit: with weights of %s and steps of %d tokens it needs %s, and a "+
		"device of %s has %s; take a smaller `dtype` or `prefill-tokens`, or a device with more memory",
		Size(plan.AllWeightBytes()), plan.PrefillTokens, text, p.device(), available)
	return errors.Join(err, cause)
}
