// Package program builds StableHLO: it implements GoMLX's [compute.Builder] and [compute.Function] on go-xla's builder,
// for any [Target].
package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"

	"github.com/quire/quire/backend/xla/mosaic"
)

// Target is what programs are built for: a backend, or a group of its devices.
type Target struct {
	Platform string
	// Composites are the native operations, by the composites that they replace.
	Composites map[string]Emitter
	// Here is the number of devices of this process that run each program together, and Partitions the number of
	// devices of all Processes that do.
	Here, Partitions, Processes int
	// Exchange reports that each process compiles for its own devices only, and that its programs exchange numbers with
	// other processes by a kernel. Otherwise the plugin compiles for the devices of all processes.
	Exchange bool
	// CheckDevice returns an error if there is no such device.
	CheckDevice func(compute.DeviceNum) error
	// Compile compiles a complete program.
	Compile func(b *Builder, text []byte) (compute.Executable, error)
}

// compiledFor returns the number of devices that the plugin compiles a program for.
func (t *Target) compiledFor() int {
	if t.Exchange {
		return t.Here
	}
	return t.Partitions
}

// Builder is a program that is being built: the functions of one StableHLO module.
type Builder struct {
	notimplemented.Builder
	target   Target
	name     string
	module   *stablehlo.Builder
	scratch  *stablehlo.Builder // takes the placeholder bodies of composites, which are never printed
	main     *Function
	named    map[string]*Function
	open     []*Function // functions that have not returned, outermost first
	inputs   int         // the number of inputs of all functions so far, which makes their names unique
	alias    map[string]int
	channels int // the number of collectives so far
	modules  modules
	device   int // -1 for a program that runs on any device
	calls    []*mosaic.Call
	done     bool
}

var _ compute.Builder = (*Builder)(nil)

// compositePrefix begins the names of functions that stand for native operations: "quire.composite/<op>/<json
// attributes>/<unique>".
const compositePrefix = "quire.composite/"

// New starts a program. In it, output alias[n] may use the storage of the main function's parameter n.
func New(target Target, name string, alias map[string]int) *Builder {
	return &Builder{target: target, name: name, module: stablehlo.New(name), scratch: stablehlo.New("composites"),
		named: map[string]*Function{}, alias: alias, device: -1}
}

// Device returns the device that the program is assigned to, or -1 if it runs on any device.
func (b *Builder) Device() int { return b.device }

// Parameters returns the names and shapes of the main function's parameters.
func (b *Builder) Parameters() ([]string, []shapes.Shape) { return b.main.params, b.main.paramShapes }

// Results returns the shapes of the main function's results.
func (b *Builder) Results() []shapes.Shape { return b.main.outputs }

// Calls returns the calls that RecordCall was given.
func (b *Builder) Calls() []*mosaic.Call { return b.calls }

// RecordCall keeps the call of a kernel for TPU with the program.
func (b *Builder) RecordCall(c *mosaic.Call) { b.calls = append(b.calls, c) }

// HasModule reports whether the program has a module with this key.
func (b *Builder) HasModule(key string) bool { _, ok := b.modules.names[key]; return ok }

// AddModule adds the functions of a module, given as text, to the program. [CallModule] calls its main function.
func (b *Builder) AddModule(key, module string) error { return b.modules.add(key, module) }

// Name implements [compute.Builder].
func (b *Builder) Name() string { return b.name }

// Main implements [compute.Builder].
func (b *Builder) Main() compute.Function {
	if b.main == nil {
		b.main = b.newFunction(b.module.Main(), compute.MainName, nil)
		if b.target.compiledFor() > 1 {
			b.main.fn.Name = bodyName
		}
	}
	return b.main
}

// NewFunction implements [compute.Builder]. A name of the form "quire.composite/<op>/<json>/<unique>" stands for a
// native operation.
func (b *Builder) NewFunction(name string) (compute.Function, error) {
	if b.named[name] != nil || name == compute.MainName {
		return nil, fmt.Errorf("xla: the program %q has a function %q already", b.name, name)
	}
	b.Main() // so that the main function comes first in the text, regardless of the order of calls
	c, err := b.parseComposite(name)
	if err != nil {
		return nil, err
	}
	module := b.module
	if c != nil {
		module = b.scratch
	}
	f := b.newFunction(module.NewFunction(stablehlo.NormalizeIdentifier(fmt.Sprintf("f%d_%s", len(b.named), name))),
		name, nil)
	f.composite = c
	b.named[name] = f
	return f, nil
}

func (b *Builder) newFunction(fn *stablehlo.Function, name string, parent *Function) *Function {
	f := &Function{
		Function: notimplemented.Function{ErrFn: func(op compute.OpType) error {
			return fmt.Errorf("xla: operation %s: %w", op, compute.ErrNotImplemented)
		}},
		b: b, fn: fn, name: name, parent: parent, imports: map[*node]*stablehlo.Value{},
		reducers: map[reducer]*stablehlo.Function{}, calls: map[*stablehlo.Statement]*call{},
	}
	if parent != nil {
		parent.children = append(parent.children, f)
	}
	b.open = append(b.open, f)
	return f
}

// closed removes f from the stack of open functions.
func (b *Builder) closed(f *Function) {
	if i := slices.Index(b.open, f); i >= 0 {
		b.open = slices.Delete(b.open, i, i+1)
	}
}

// OpShape implements [compute.Builder].
func (b *Builder) OpShape(x compute.Value) (shapes.Shape, error) {
	n, err := b.node(x)
	if err != nil {
		return shapes.Invalid(), err
	}
	return n.shape, nil
}

func (b *Builder) node(x compute.Value) (*node, error) {
	n, ok := x.(*node)
	if !ok || n == nil {
		return nil, fmt.Errorf("xla: a value of type %T is not one of this backend's", x)
	}
	if n.f.b != b {
		return nil, fmt.Errorf("xla: a value of program %q is used in program %q", n.f.b.name, b.name)
	}
	return n, nil
}

// DeviceAssignment implements [compute.Builder]: it sets the one device that the program runs on. Without it, the
// caller of Execute names the device.
func (b *Builder) DeviceAssignment(devices ...compute.DeviceNum) error {
	if len(devices) != 1 || b.target.Partitions > 1 {
		return fmt.Errorf(
			"xla: %d devices are assigned to program %q: build a program for several devices on a group's backend: %w",
			len(devices), b.name, compute.ErrNotImplemented)
	}
	if err := b.target.CheckDevice(devices[0]); err != nil {
		return err
	}
	b.device = int(devices[0])
	return nil
}

// Compile implements [compute.Builder].
func (b *Builder) Compile() (compute.Executable, error) {
	switch {
	case b.done:
		return nil, fmt.Errorf("xla: program %q was compiled already", b.name)
	case b.main == nil || !b.main.returned:
		return nil, fmt.Errorf("xla: program %q: the main function has not returned", b.name)
	}
	for name, output := range b.alias {
		in := slices.Index(b.main.params, name)
		if in < 0 {
			return nil, fmt.Errorf("xla: program %q has no parameter %q to donate", b.name, name)
		}
		if output < 0 || output >= len(b.main.outputs) {
			return nil, fmt.Errorf("xla: program %q donates %q to output %d, but has %d outputs", b.name, name, output,
				len(b.main.outputs))
		}
		if !b.main.paramShapes[in].Equal(b.main.outputs[output]) {
			return nil, fmt.Errorf("xla: program %q donates %q of shape %s to output %d of shape %s", b.name, name,
				b.main.paramShapes[in], output, b.main.outputs[output])
		}
	}
	b.done = true
	text, err := b.Text()
	if err != nil {
		return nil, err
	}
	return b.target.Compile(b, text)
}

// Text prints the program as StableHLO. The same program has the same text in every process, because caches find a
// program by its text.
func (b *Builder) Text() ([]byte, error) {
	for _, f := range b.named {
		if !f.returned {
			return nil, fmt.Errorf("xla: program %q: function %q has not returned", b.name, f.name)
		}
	}
	var out bytes.Buffer
	if err := b.module.Write(&out); err != nil {
		return nil, err
	}
	text := out.String()
	if b.modules.text.Len() > 0 {
		end := strings.LastIndex(text, "}")
		text = text[:end] + b.modules.text.String() + text[end:]
	}
	if b.target.compiledFor() > 1 {
		text = groupText(text, b.main, b.alias, b.target.compiledFor())
	}
	return []byte(text), nil
}

// parseComposite returns the composite that name stands for, or nil if it is an ordinary name.
func (b *Builder) parseComposite(name string) (*composite, error) {
	rest, ok := strings.CutPrefix(name, compositePrefix)
	if !ok {
		return nil, nil
	}
	op, rest, found := strings.Cut(rest, "/")
	end := strings.LastIndex(rest, "/")
	if !found || end < 0 || !json.Valid([]byte(rest[:end])) {
		return nil, fmt.Errorf("xla: %q is not a composite: it takes the form %s<op>/<json attributes>/<unique>",
			name, compositePrefix)
	}
	native := b.target.Composites[op]
	if native == nil {
		return nil, fmt.Errorf("xla: composite %q on %s: %w", op, b.target.Platform, compute.ErrNotImplemented)
	}
	return &composite{op: op, attrs: json.RawMessage(rest[:end]), native: native}, nil
}

// Names in the text of a group's program.
const (
	meshName = "group"
	axisName = "device"
	bodyName = "one_device"
)

// groupText turns the text of one device's program, whose main function is named bodyName, into the text of a group's
// program. Its main function takes the devices' arrays concatenated on their first axes, and has one manual
// computation, in which each device sees its own array. So Shardy has nothing to decide, and no operation of the body
// is partitioned. A scalar is the same on all devices.
func groupText(body string, main *Function, alias map[string]int, devices int) string {
	sharding := func(s shapes.Shape) string {
		if s.Rank() == 0 {
			return "<@" + meshName + ", []>"
		}
		return fmt.Sprintf("<@%s, [{%q}%s]>", meshName, axisName, strings.Repeat(", {}", s.Rank()-1))
	}
	whole := func(s shapes.Shape) string {
		x := ToXLA(s)
		if s.Rank() > 0 {
			x.Dimensions[0] *= devices
		}
		return x.ToStableHLO()
	}
	each := func(list []shapes.Shape, f func(i int, s shapes.Shape) string) string {
		parts := make([]string, len(list))
		for i, s := range list {
			parts[i] = f(i, s)
		}
		return strings.Join(parts, ", ")
	}
	local := func(_ int, s shapes.Shape) string { return ToXLA(s).ToStableHLO() }
	global := func(_ int, s shapes.Shape) string { return whole(s) }
	shardings := func(_ int, s shapes.Shape) string { return sharding(s) }
	in, out := main.paramShapes, main.outputs
	results := func(prefix string) string {
		return each(out, func(i int, _ shapes.Shape) string { return fmt.Sprintf("%s#%d", prefix, i) })
	}

	var t strings.Builder
	head, functions, _ := strings.Cut(body, "{\n")
	fmt.Fprintf(&t, "%s{\n  sdy.mesh @%s = <[%q=%d]>\n", head, meshName, axisName, devices)
	fmt.Fprintf(&t, "  func.func @main(%s) -> (%s) {\n", each(in, func(i int, s shapes.Shape) string {
		attribute := ""
		if output, ok := alias[main.params[i]]; ok {
			attribute = fmt.Sprintf("tf.aliasing_output = %d : i32, ", output)
		}
		return fmt.Sprintf("%%p%d: %s {%ssdy.sharding = #sdy.sharding%s}", i, whole(s), attribute, sharding(s))
	}), each(out, func(_ int, s shapes.Shape) string {
		return fmt.Sprintf("%s {sdy.sharding = #sdy.sharding%s}", whole(s), sharding(s))
	}))
	fmt.Fprintf(&t,
		"    %%whole:%d = \"sdy.manual_computation\"(%s) <{in_shardings = #sdy.sharding_per_value<[%s]>, "+
			"out_shardings = #sdy.sharding_per_value<[%s]>, manual_axes = #sdy<manual_axes{%q}>}> ({\n",
		len(out), each(in, func(i int, _ shapes.Shape) string { return fmt.Sprintf("%%p%d", i) }), each(in, shardings),
		each(out, shardings), axisName)
	if len(in) > 0 {
		fmt.Fprintf(&t, "      ^bb0(%s):\n",
			each(in, func(i int, s shapes.Shape) string { return fmt.Sprintf("%%a%d: %s", i, local(i, s)) }))
	}
	fmt.Fprintf(&t, "      %%own:%d = func.call @%s(%s) : (%s) -> (%s)\n", len(out), bodyName,
		each(in, func(i int, _ shapes.Shape) string { return fmt.Sprintf("%%a%d", i) }), each(in, local),
		each(out, local))
	fmt.Fprintf(&t, "      \"sdy.return\"(%s) : (%s) -> ()\n", results("%own"), each(out, local))
	fmt.Fprintf(&t, "    }) : (%s) -> (%s)\n", each(in, global), each(out, global))
	fmt.Fprintf(&t, "    return %s : %s\n  }\n\n", results("%whole"), each(out, global))
	t.WriteString(strings.Replace(functions, "func.func @"+bodyName+"(", "func.func private @"+bodyName+"(", 1))
	return t.String()
}
