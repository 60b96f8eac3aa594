package hlo

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Work is what a part of a program consists of: what the TPU's compiler has estimates for, and what it has none for.
type Work struct {
	// Cycles are the compiler's.
	Cycles int64 `json:"cycles"`
	// Scatters and Gathers write or read whole rows of an array by number; Small ones single numbers. Offloaded ones
	// are sent to another core, such as a SparseCore. None has an estimate.
	Scatters  Rows `json:"scatters"`
	Gathers   Rows `json:"gathers"`
	Small     Rows `json:"small"`
	Offloaded Rows `json:"offloaded"`
	// Sums, Gathered and Moved are bytes of arrays that devices exchange: arrays that they add up, that they put
	// together, and that they otherwise send. Overlapped is bytes whose exchange other operations may hide.
	Sums       int64 `json:"summed_bytes"`
	Gathered   int64 `json:"gathered_bytes"`
	Moved      int64 `json:"moved_bytes"`
	Overlapped int64 `json:"overlapped_bytes"`
}

// Rows counts operations on rows.
type Rows struct {
	Operations int64 `json:"operations"`
	Rows       int64 `json:"rows"`
	Bytes      int64 `json:"bytes"`
}

// smallRow is the size in bytes below which a row is not a whole register row, of 128 numbers of 16 bits.
const smallRow = 256

func (r *Rows) add(more Rows, times int64) {
	r.Operations += times * more.Operations
	r.Rows += times * more.Rows
	r.Bytes += times * more.Bytes
}

// Add adds more work, so many times.
func (w *Work) Add(more Work, times int64) {
	w.Cycles += times * more.Cycles
	w.Scatters.add(more.Scatters, times)
	w.Gathers.add(more.Gathers, times)
	w.Small.add(more.Small, times)
	w.Offloaded.add(more.Offloaded, times)
	w.Sums += times * more.Sums
	w.Gathered += times * more.Gathered
	w.Moved += times * more.Moved
	w.Overlapped += times * more.Overlapped
}

// Layers is the work of all layers in a step. Loops is one round of each loop of unknown length, and Within one round
// of each loop in such a loop: attention without a kernel loops over blocks of the context, experts over tiles of rows.
type Layers struct {
	Once   Work `json:"once"`
	Loops  Work `json:"loops"`
	Within Work `json:"loops_within_loops"`
}

func (l *Layers) add(more Layers, times int64) {
	l.Once.Add(more.Once, times)
	l.Loops.Add(more.Loops, times)
	l.Within.Add(more.Within, times)
}

// Cycles returns the cycles of all work, with one round of each loop.
func (l Layers) Cycles() int64 { return l.Once.Cycles + l.Loops.Cycles + l.Within.Cycles }

// Steps is the work of the two kinds of steps of the engine's program.
type Steps struct {
	// HasKernels reports whether attention is in kernels.
	HasKernels bool `json:"attention_kernels"`

	Prompt Layers `json:"prompt_layers"`
	Decode Layers `json:"decode_layers"`
	Draw   Work   `json:"draw"`   // of tokens, if no row has a filter
	Around Work   `json:"around"` // the rest of a step
	Round  Work   `json:"round"`  // what decides about the next step
	Call   Work   `json:"call"`   // what a call of several steps does once
}

// Steps adds up the steps of a program whose layers run as a loop with so many turns; 1 if they do not. It is false if
// the program has no such steps.
func (p Program) Steps(turns int) (s Steps, ok bool) {
	step, prompt, decode := p.kinds()
	if step == "" {
		return s, false
	}
	s.HasKernels = p.hasKernel(prompt.Calls[0]) && p.hasKernel(decode.Calls[0])
	s.Prompt, s.Decode = p.layers(prompt.Calls[0], turns), p.layers(decode.Calls[0], turns)
	for _, op := range p[step] {
		switch op.Kind {
		case "while": // of the layers, or of sequences that end
		case "conditional":
			s.Draw.Add(p.branch(op, false), 1)
		default:
			s.Around.Add(p.workOf(op), 1)
		}
	}
	round := p.caller(step)
	s.Round, s.Call = p.withoutLoops(round), p.withoutLoops(p.caller(round))
	return s, true
}

// caller returns a computation with a loop whose body is another one; "" if there is none.
func (p Program) caller(body string) string {
	for name, ops := range p {
		if slices.ContainsFunc(ops, func(op Operation) bool { return op.Kind == "while" && op.Calls[0] == body }) {
			return name
		}
	}
	return ""
}

// withoutLoops is the work of a computation besides its loops.
func (p Program) withoutLoops(name string) (w Work) {
	for _, op := range p[name] {
		w.Add(p.workOfAny(op).Once, 1)
	}
	return w
}

// kinds finds the computation of a step, which has a loop that runs at most once for each kind of step, in this order:
// for prompts, and to decode. They are the two loops with attention's kernels. Without kernels they are the two most
// expensive loops next to a condition, which in a step is whether a sequence samples.
func (p Program) kinds() (step string, prompt, decode Operation) {
	var most int64 = -1
	for _, name := range slices.Sorted(maps.Keys(p)) {
		var loops []Operation
		for _, op := range p[name] {
			if op.Kind == "while" {
				loops = append(loops, op)
			}
		}
		kernels := slices.DeleteFunc(slices.Clone(loops), func(op Operation) bool { return !p.hasKernel(op.Calls[0]) })
		if len(kernels) == 2 {
			return name, kernels[0], kernels[1]
		}
		samples := slices.ContainsFunc(p[name], func(op Operation) bool { return op.Kind == "conditional" })
		if len(loops) < 2 || !samples {
			continue
		}
		byCycles := slices.Clone(loops)
		slices.SortStableFunc(byCycles, func(a, b Operation) int {
			return cmp.Compare(p.work(b.Calls[0]).Cycles(), p.work(a.Calls[0]).Cycles())
		})
		second := p.work(byCycles[1].Calls[0]).Cycles()
		if second > most && second > 0 {
			two := slices.DeleteFunc(loops, func(op Operation) bool {
				return op.Line != byCycles[0].Line && op.Line != byCycles[1].Line
			})
			most, step, prompt, decode = second, name, two[0], two[1]
		}
	}
	return step, prompt, decode
}

// hasKernel reports whether a computation or its loops contain attention's kernel.
func (p Program) hasKernel(name string) bool {
	return slices.ContainsFunc(p[name], func(op Operation) bool {
		return op.Kernel || op.Kind == "while" && p.hasKernel(op.Calls[0])
	})
}

// layers is the work of all layers in the body of a kind of step. The most expensive loop in it runs over the layers,
// if a loop does.
func (p Program) layers(name string, turns int) (all Layers) {
	loop, most := -1, int64(0)
	for i, op := range p[name] {
		if turns > 1 && op.Kind == "while" {
			if c := p.work(op.Calls[0]).Cycles(); c > most {
				loop, most = i, c
			}
		}
	}
	for i, op := range p[name] {
		if i == loop {
			all.add(p.work(op.Calls[0]), int64(turns))
		} else {
			all.add(p.workOfAny(op), 1)
		}
	}
	return all
}

// work is the work of a computation, where each condition asks for less.
func (p Program) work(name string) (all Layers) {
	for _, op := range p[name] {
		all.add(p.workOfAny(op), 1)
	}
	return all
}

func (p Program) workOfAny(op Operation) (w Layers) {
	switch op.Kind {
	case "while":
		body := p.work(op.Calls[0])
		w.Loops, w.Within = body.Once, body.Loops
		w.Within.Add(body.Within, 1)
	case "conditional":
		w.Once = p.branch(op, true)
	default:
		w.Once = p.workOf(op)
	}
	return w
}

// branch is the work of the branch of a condition that takes the fewest or the most cycles. Its loops run once.
func (p Program) branch(op Operation, fewest bool) (chosen Work) {
	for i, name := range op.Calls {
		w := p.work(name)
		w.Once.Add(w.Loops, 1)
		w.Once.Add(w.Within, 1)
		if i == 0 || (w.Once.Cycles < chosen.Cycles) == fewest {
			chosen = w.Once
		}
	}
	return chosen
}

// workOf is the work of an operation that is neither a loop nor a condition.
func (p Program) workOf(op Operation) (w Work) {
	w.Cycles = int64(op.Cycles)
	kind := strings.TrimSuffix(op.Kind, "-start")
	switch kind {
	case "all-reduce", "reduce-scatter":
		w.Sums = op.Bytes
	case "all-gather":
		w.Gathered = op.Bytes
	case "all-to-all", "collective-permute", "collective-broadcast":
		w.Moved = op.Bytes
	}
	if kind != op.Kind {
		w.Overlapped = w.Sums + w.Gathered + w.Moved
		w.Sums, w.Gathered, w.Moved = 0, 0, 0
	}
	rows, scatters, ok := p.rowsOf(op, nil)
	switch {
	case !ok || op.Cycles > 0:
	case kind == "async":
		w.Offloaded = rows
	case rows.Bytes < rows.Rows*smallRow:
		w.Small = rows
	case scatters:
		w.Scatters = rows
	default:
		w.Gathers = rows
	}
	return w
}

// rowsOf finds the scatter or gather in an operation, and what it moves. by is the computation of the operation.
func (p Program) rowsOf(op Operation, by []Operation) (rows Rows, scatters, ok bool) {
	switch op.Kind {
	case "gather":
		return Rows{1, int64(op.Rows), op.Bytes}, false, true
	case "scatter":
		for _, o := range by {
			if len(op.Operands) > 2 && o.name() == op.Operands[2] {
				return Rows{1, int64(o.Rows), o.Bytes}, true, true
			}
		}
		return Rows{1, int64(op.Rows), op.Bytes}, true, true
	case "fusion", "async-start", "call", "custom-call":
	default:
		return rows, false, false
	}
	for _, name := range op.Calls {
		for _, o := range p[name] {
			r, s, found := p.rowsOf(o, p[name])
			if found && (!ok || s && !scatters) { // a scatter of rows that were gathered is a scatter
				rows, scatters, ok = r, s, true
			}
		}
	}
	return rows, scatters, ok
}

// Copy is an array that an operation writes again, as it is or in a different order.
type Copy struct {
	Bytes int64  `json:"bytes"`
	Array string `json:"array"` // its type and dimensions
	// In is what runs the operation: "a layer", "a step", "a call" of several steps, or "the program" without steps.
	In string `json:"in"`
	// Line is the operation.
	Line string `json:"-"`
}

// LargestCopy returns the largest array in the device's main memory that is a copy or a transposition of another one;
// false if there is none. Arguments of the program that it takes and gives back in place are none.
func (p Program) LargestCopy() (largest Copy, ok bool) {
	fused := p.Fused()
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if fused[name] {
			continue
		}
		for _, op := range p[name] {
			if op.Near || op.Bytes <= largest.Bytes || !p.copies(op) {
				continue
			}
			largest = Copy{Bytes: op.Bytes, Array: arrayOf.FindString(op.Line), In: p.level(name), Line: op.Line}
			ok = true
		}
	}
	return largest, ok
}

// copies reports whether an operation writes a copy. A fusion does if its whole result is one.
func (p Program) copies(op Operation) bool {
	switch op.Kind {
	case "copy", "copy-start", "transpose":
		return true
	case "fusion":
		for _, name := range op.Calls {
			for _, o := range p[name] {
				if strings.HasPrefix(o.Line, "ROOT ") && (o.Kind == "copy" || o.Kind == "transpose") {
					return true
				}
			}
		}
	}
	return false
}

// level is what runs a computation: see [Copy].
func (p Program) level(name string) string {
	step, prompt, decode := p.kinds()
	switch {
	case step == "":
		return "the program"
	case p.reaches(prompt.Calls[0], name) || p.reaches(decode.Calls[0], name):
		return "a layer"
	case p.reaches(step, name), p.caller(step) == name:
		return "a step"
	}
	return "a call"
}

// reaches reports whether a computation is another one or calls it.
func (p Program) reaches(from, name string) bool {
	return from == name || slices.ContainsFunc(p[from], func(op Operation) bool {
		return slices.ContainsFunc(op.Calls, func(called string) bool { return p.reaches(called, name) })
	})
}
