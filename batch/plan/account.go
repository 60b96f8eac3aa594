package plan

import "github.com/quire/quire/engine"

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
