package xla

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gomlx/go-xla/stablehlo"

	"github.com/quire/quire/backend/xla/mosaic"
)

// StandIn returns what computes a TPU kernel's call elsewhere: a StableHLO module, as text, whose function main takes
// the call's operands and gives its results. scripts/kernels/arrays.py lowers the kernels to such modules.
type StandIn func(call *mosaic.Call) (module string, err error)

// standIns are the functions of such modules that a program calls.
type standIns struct {
	names map[string]string // of the main functions, by the kernel's configuration, which has its sizes
	text  strings.Builder
}

// symbol is a function's name in a module's text.
var symbol = regexp.MustCompile(`@[A-Za-z_][\w.$]*`)

// add puts the functions of a module into the program, under names of their own, and returns main's.
func (s *standIns) add(module string) (string, error) {
	_, body, found := strings.Cut(module, "{\n")
	end := strings.LastIndex(body, "}")
	if !found || end < 0 || !strings.Contains(body, "@main(") {
		return "", fmt.Errorf("the text is no module with a function main")
	}
	prefix := fmt.Sprintf("kernel%d_", len(s.names))
	body = symbol.ReplaceAllStringFunc(body[:end], func(name string) string { return "@" + prefix + name[1:] })
	s.text.WriteString(strings.Replace(body, "func.func public ", "func.func private ", 1))
	return prefix + "main", nil
}

// call emits the call of a function in the kernel's place.
func (s *steps) standIn(stand StandIn, call *mosaic.Call, operands []*stablehlo.Value) ([]*stablehlo.Value, error) {
	b := s.f.b
	if b.standIns == nil {
		b.standIns = &standIns{names: map[string]string{}}
	}
	name, ok := b.standIns.names[call.BackendConfig]
	if !ok {
		module, err := stand(call)
		if err != nil {
			return nil, err
		}
		if name, err = b.standIns.add(module); err != nil {
			return nil, fmt.Errorf("what stands in for kernel %s: %w", call.Payload.Kernel, err)
		}
		b.standIns.names[call.BackendConfig] = name
	}
	// What is called is declared in a module that is never printed: its text is another's.
	declared, results := b.scratch.NewFunction(name), b.scratch.NewFunction(name+"_results")
	for _, t := range call.Operands {
		if _, err := declared.Input(toXLA(t.Shape)); err != nil {
			return nil, err
		}
	}
	for _, t := range call.Results {
		v, err := results.Input(toXLA(t.Shape))
		if err != nil {
			return nil, err
		}
		declared.Outputs = append(declared.Outputs, v)
	}
	declared.Returned = true
	return stablehlo.Call(declared, operands...)
}
