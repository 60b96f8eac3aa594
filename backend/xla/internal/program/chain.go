package program

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"

	"github.com/quire/quire/backend/xla/cpukernel"
)

// This file merges kernels in C that follow each other in a function into one custom call, a chain: XLA:CPU takes 1.5
// to 2 us for each call, and a step of a small model has hundreds. What kernels compute does not change.
//
// Statements are taken in order. A statement that does not depend on the chain is put before it. A statement that does,
// and is not a kernel, is put after the chain, and the first kernel that depends on such a statement starts the next
// chain. Reshapes join the chain. Arrays that only kernels of the chain use are in one scratch array, and share its
// memory if they are not needed at the same time.

// call is a custom call of a kernel in C.
type call struct {
	target, config string
	alias          map[int]int // by result, the operand that the result is updated in place
}

// emitCall returns the statement of a custom call of the typed FFI, whose result r is operand alias[r] updated in
// place.
type emitCall func(target, config string, inputs []*stablehlo.Value, results []shapes.Shape, alias map[int]int) (
	*stablehlo.Statement, error)

// link is a member of a chain: a call, or a reshape, whose call is nil.
type link struct {
	statement *stablehlo.Statement
	call      *call
}

// place is the memory of an array of a chain.
type place struct {
	operand     int              // its number among the chain's operands, or -1
	written     bool             // the operand is updated in place
	result      *stablehlo.Value // the value that is a result of the chain, or nil
	names       []string         // the values that lie here and are not yet updated in place
	first, last int              // the links that make it and that use it last
	size, at    int64            // in the scratch array, in bytes
}

// chain is a chain in the making.
type chain struct {
	users  map[string]int // how often each value is used in the function
	links  []link
	used   map[string]int    // how often values are used by links
	places map[string]*place // of all values that links use or make
	made   map[string]bool   // what links make
	gone   map[string]bool   // values whose places were updated in place
	after  []*stablehlo.Statement
	late   map[string]bool // what statements in after make
	inputs []*stablehlo.Value
}

func newChain(users map[string]int) *chain {
	return &chain{users: users, used: map[string]int{}, places: map[string]*place{}, made: map[string]bool{},
		gone: map[string]bool{}, late: map[string]bool{}}
}

// joinCalls merges the kernels of a function, which is about to return values, into chains, and returns its statements.
func joinCalls(statements []*stablehlo.Statement, calls map[*stablehlo.Statement]*call, values []*stablehlo.Value,
	emit emitCall) ([]*stablehlo.Statement, error) {
	if len(calls) < 2 {
		return statements, nil
	}
	users := map[string]int{}
	for _, v := range values {
		users[v.String()]++
	}
	uses := make([][]string, len(statements))
	for i, s := range statements {
		uses[i] = usesOf(s)
		for _, name := range uses[i] {
			users[name]++
		}
	}
	var out []*stablehlo.Statement
	c := newChain(users)
	end := func() error {
		joined, err := c.replacement(emit)
		out = append(append(out, joined...), c.after...)
		c = newChain(users)
		return err
	}
	for i, s := range statements {
		kernel := calls[s]
		if kernel != nil && !c.canAdd(s, kernel) {
			if err := end(); err != nil {
				return nil, err
			}
		}
		switch {
		case kernel != nil:
			c.add(s, kernel)
		case !slices.ContainsFunc(uses[i], func(name string) bool { return c.made[name] || c.late[name] }):
			out = append(out, s)
		case isReshape(s) && !c.late[uses[i][0]] && !c.gone[uses[i][0]]:
			c.add(s, nil)
		default:
			c.after = append(c.after, s)
			for _, v := range s.Outputs {
				c.late[v.String()] = true
			}
		}
	}
	err := end()
	return out, err
}

// usesOf returns the values that a statement uses, including those that the bodies of its functions use.
func usesOf(s *stablehlo.Statement) []string {
	var names []string
	for _, v := range s.Inputs {
		names = append(names, v.String())
	}
	for _, body := range s.FunctionParameters {
		for _, inner := range body.Statements {
			names = append(names, usesOf(inner)...)
		}
	}
	return names
}

func isReshape(s *stablehlo.Statement) bool { return s.OpType.String() == "Reshape" }

// canAdd reports whether the call may follow the chain's links: it needs nothing that is computed after the chain, nor
// an array as it was before a link updated it, and nothing uses later what the call updates in place.
func (c *chain) canAdd(s *stablehlo.Statement, k *call) bool {
	for _, v := range s.Inputs {
		if name := v.String(); c.late[name] || c.gone[name] {
			return false
		}
	}
	for _, input := range k.alias {
		p := c.places[s.Inputs[input].String()]
		if p == nil || p.operand >= 0 && !p.written {
			continue // XLA copies an operand that is needed later
		}
		for _, name := range p.names {
			used := c.used[name]
			if name == s.Inputs[input].String() {
				used++
			}
			if c.users[name] > used {
				return false
			}
		}
	}
	return true
}

// add makes the statement the last link: a call of kernel k, or a reshape if k is nil.
func (c *chain) add(s *stablehlo.Statement, k *call) {
	at := len(c.links)
	c.links = append(c.links, link{s, k})
	for _, v := range s.Inputs {
		name := v.String()
		p := c.places[name]
		if p == nil {
			p = &place{operand: len(c.inputs), names: []string{name}}
			c.places[name] = p
			c.inputs = append(c.inputs, v)
		}
		c.used[name]++
		p.last = at
	}
	for i, v := range s.Outputs {
		name := v.String()
		c.made[name] = true
		if k == nil {
			p := c.places[s.Inputs[0].String()]
			p.names = append(p.names, name)
			c.places[name] = p
			continue
		}
		input, inPlace := k.alias[i]
		if !inPlace {
			c.places[name] = &place{operand: -1, names: []string{name}, first: at, last: at}
			continue
		}
		p := c.places[s.Inputs[input].String()]
		for _, old := range p.names {
			c.gone[old] = true
		}
		p.names, p.written = []string{name}, p.operand >= 0
		c.places[name] = p
	}
}

// replacement returns the statements that replace the chain's links: one call and reshapes of its results, or the links
// themselves if only one is a call.
func (c *chain) replacement(emit emitCall) ([]*stablehlo.Statement, error) {
	calls := 0
	for _, l := range c.links {
		if l.call != nil {
			calls++
		}
	}
	if calls < 2 {
		var same []*stablehlo.Statement
		for _, l := range c.links {
			same = append(same, l.statement)
		}
		return same, nil
	}
	reshapes := c.setResults()
	results := c.results()
	var shapesOut []shapes.Shape
	alias := map[int]int{}
	for i, p := range results {
		shapesOut = append(shapesOut, FromXLA(p.result.Shape()))
		if p.operand >= 0 {
			alias[i] = p.operand
		}
	}
	scratch := c.setScratch()
	if scratch > 0 {
		shapesOut = append(shapesOut, shapes.Make(dtypes.Uint8, int(scratch)))
	}
	config, err := c.config(results, len(c.inputs)+len(shapesOut))
	if err != nil {
		return nil, err
	}
	s, err := emit(cpukernel.Chain, config, c.inputs, shapesOut, alias)
	if err != nil {
		return nil, fmt.Errorf("a chain of %d kernels: %w", calls, err)
	}
	for i, p := range results {
		s.Outputs[i] = p.result
	}
	return append([]*stablehlo.Statement{s}, reshapes...), nil
}

// setResults sets which value of each place is a result of the chain: a value that is used outside of it, and each
// operand that is updated in place. It returns the reshapes whose results are used outside, which follow the chain.
func (c *chain) setResults() (reshapes []*stablehlo.Statement) {
	outside := map[string]bool{}
	for _, l := range slices.Backward(c.links) {
		for _, v := range l.statement.Outputs {
			name := v.String()
			p := c.places[name]
			switch used := outside[name] || c.users[name] > c.used[name]; {
			case used && l.call == nil:
				reshapes = append(reshapes, l.statement)
				outside[l.statement.Inputs[0].String()] = true
			case l.call != nil && p.result == nil && (used || p.written):
				p.result = v
			}
		}
	}
	slices.Reverse(reshapes)
	return reshapes
}

// results returns the places of the chain's results, in the order of the links.
func (c *chain) results() []*place {
	var all []*place
	for _, l := range c.links {
		for _, v := range l.statement.Outputs {
			if p := c.places[v.String()]; p.result == v {
				all = append(all, p)
			}
		}
	}
	return all
}

// scratchUnit divides all offsets in the scratch array: it is XLA's alignment of arrays.
const scratchUnit = 64

// setScratch sets the offset in the scratch array of each place that is neither an operand nor a result: the lowest
// that is free while the place is needed. It returns the size of the scratch array.
func (c *chain) setScratch() (size int64) {
	var set []*place
	for _, l := range c.links {
		for _, v := range l.statement.Outputs {
			p := c.places[v.String()]
			if p.operand >= 0 || p.result != nil || slices.Contains(set, p) {
				continue
			}
			p.size = (max(int64(FromXLA(v.Shape()).Memory()), 1) + scratchUnit - 1) / scratchUnit * scratchUnit
			var overlapping []*place
			for _, other := range set {
				if other.first <= p.last && p.first <= other.last {
					overlapping = append(overlapping, other)
				}
			}
			slices.SortFunc(overlapping, func(a, b *place) int { return cmp.Compare(a.at, b.at) })
			for _, other := range overlapping {
				if other.at >= p.at+p.size {
					break
				}
				p.at = max(p.at, other.at+other.size)
			}
			set = append(set, p)
			size = max(size, p.at+p.size)
		}
	}
	return size
}

// ffiTypes are the numbers of dtypes in XLA's FFI: see ffi.h.
var ffiTypes = map[dtypes.DType]int{dtypes.Bool: 1, dtypes.Int8: 2, dtypes.Int16: 3, dtypes.Int32: 4, dtypes.Int64: 5,
	dtypes.Uint8: 6, dtypes.Uint16: 7, dtypes.Uint32: 8, dtypes.Uint64: 9, dtypes.Float16: 10, dtypes.Float32: 11,
	dtypes.Float64: 12, dtypes.BFloat16: 16}

// mostKinds is the number of kinds of calls that a chain can have: their names, which the plugin sorts, have three
// digits.
const mostKinds = 1000

// config returns the configuration of the chain's call, as cpukernel/chain.h describes it. outer is the number of the
// call's operands and results.
func (c *chain) config(results []*place, outer int) (string, error) {
	numbers := map[string]int{} // of the arrays
	for i, v := range c.inputs {
		numbers[v.String()] = i
	}
	for i, p := range results {
		numbers[p.result.String()] = len(c.inputs) + i
	}
	next := outer
	var parts, calls []string
	number := func(v *stablehlo.Value) (int, error) {
		if n, ok := numbers[v.String()]; ok {
			return n, nil
		}
		p, base, shape := c.places[v.String()], outer-1, FromXLA(v.Shape()) // the last one is the scratch array
		switch {
		case p.result != nil:
			base = numbers[p.result.String()]
		case p.operand >= 0:
			base = p.operand
		}
		dtype, ok := ffiTypes[shape.DType]
		if !ok {
			return 0, fmt.Errorf("a kernel has an array %s, whose dtype kernels do not take", shape)
		}
		parts = append(parts, fmt.Sprint(base), fmt.Sprint(p.at), fmt.Sprint(dtype), fmt.Sprint(shape.Rank()))
		for _, d := range shape.Dimensions {
			parts = append(parts, fmt.Sprint(d))
		}
		numbers[v.String()] = next
		next++
		return next - 1, nil
	}
	kernels := map[string]int{}
	var entries []string
	for _, l := range c.links {
		if l.call == nil {
			continue
		}
		kind := l.call.target + " = " + l.call.config
		if _, ok := kernels[kind]; !ok {
			if len(entries) == mostKinds {
				return "", fmt.Errorf("more than %d kinds of calls", mostKinds)
			}
			kernels[kind] = len(entries)
			entries = append(entries, fmt.Sprintf("k%03d.%s", len(entries), kind))
		}
		calls = append(calls, fmt.Sprint(kernels[kind]), fmt.Sprint(len(l.statement.Inputs)),
			fmt.Sprint(len(l.statement.Outputs)))
		for _, v := range slices.Concat(l.statement.Inputs, l.statement.Outputs) {
			n, err := number(v)
			if err != nil {
				return "", err
			}
			calls = append(calls, fmt.Sprint(n))
		}
	}
	return fmt.Sprintf("{calls = %s, kernels = {%s}, parts = %s}", integers(calls), strings.Join(entries, ", "),
		integers(parts)), nil
}

// integers prints an array of i64 as an attribute.
func integers(numbers []string) string {
	if len(numbers) == 0 {
		return "array<i64>"
	}
	return "array<i64: " + strings.Join(numbers, ", ") + ">"
}
