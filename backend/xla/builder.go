package xla

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	xlashapes "github.com/gomlx/go-xla/types/shapes"
)

// builder is a program in the making: the functions of one StableHLO module.
type builder struct {
	notimplemented.Builder
	backend  *Backend
	name     string
	module   *stablehlo.Builder
	scratch  *stablehlo.Builder // takes the placeholder bodies of composites, which are never printed
	main     *function
	named    map[string]*function
	open     []*function // functions not yet returned, outermost first
	inputs   int         // inputs of all functions so far; makes their names unique
	alias    map[string]int
	channels int // of collectives so far
	standIns *standIns
	device   int // -1 for a program that runs on any device
	compiled func(*Executable)
	calls    []kernelCall // of kernels with blocks
	done     bool
}

var _ compute.Builder = (*builder)(nil)

func newBuilder(b *Backend, name string, alias map[string]int, compiled func(*Executable)) *builder {
	return &builder{
		backend: b, name: name, module: stablehlo.New(name), scratch: stablehlo.New("composites"),
		named: map[string]*function{},
		alias: alias, device: -1, compiled: compiled,
	}
}

// Name implements [compute.Builder].
func (b *builder) Name() string { return b.name }

// Main implements [compute.Builder].
func (b *builder) Main() compute.Function {
	if b.main == nil {
		b.main = b.newFunction(b.module.Main(), compute.MainName, nil)
		if b.backend.spmd() > 1 {
			b.main.fn.Name = bodyName
		}
	}
	return b.main
}

// NewFunction implements [compute.Builder]. A name of the form "quire.composite/<op>/<json>/<unique>" stands for a
// native operation.
func (b *builder) NewFunction(name string) (compute.Function, error) {
	if b.named[name] != nil || name == compute.MainName {
		return nil, fmt.Errorf("xla: the program %q has a function %q already", b.name, name)
	}
	b.Main() // so that the main function comes first in the text, whatever the order of calls
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

func (b *builder) newFunction(fn *stablehlo.Function, name string, parent *function) *function {
	f := &function{
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

// closed takes f off the stack of open functions.
func (b *builder) closed(f *function) {
	if i := slices.Index(b.open, f); i >= 0 {
		b.open = slices.Delete(b.open, i, i+1)
	}
}

// OpShape implements [compute.Builder].
func (b *builder) OpShape(x compute.Value) (shapes.Shape, error) {
	n, err := b.node(x)
	if err != nil {
		return shapes.Invalid(), err
	}
	return n.shape, nil
}

func (b *builder) node(x compute.Value) (*node, error) {
	n, ok := x.(*node)
	if !ok || n == nil {
		return nil, fmt.Errorf("xla: a value of type %T is not one of this backend's", x)
	}
	if n.f.b != b {
		return nil, fmt.Errorf("xla: a value of program %q is used in program %q", n.f.b.name, b.name)
	}
	return n, nil
}

// DeviceAssignment implements [compute.Builder]: the one device the program runs on. Without it, Execute says.
func (b *builder) DeviceAssignment(devices ...compute.DeviceNum) error {
	if len(devices) != 1 || b.backend.Partitions() > 1 {
		return fmt.Errorf(
			"xla: %d devices are assigned to program %q: build a program for several devices on a group's backend: %w",
			len(devices), b.name, compute.ErrNotImplemented)
	}
	if _, err := b.backend.device(devices[0]); err != nil {
		return err
	}
	b.device = int(devices[0])
	return nil
}

// Compile implements [compute.Builder].
func (b *builder) Compile() (compute.Executable, error) {
	switch {
	case b.backend.valid() != nil:
		return nil, errFinalized
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
	e, err := b.backend.load(b, text)
	if err != nil {
		return nil, err
	}
	if b.compiled != nil {
		b.compiled(e)
	}
	return e, nil
}

// Text prints the program as StableHLO. The same program has the same text in every process: caches find it by that.
func (b *builder) Text() ([]byte, error) {
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
	if b.standIns != nil {
		end := strings.LastIndex(text, "}")
		text = text[:end] + b.standIns.text.String() + text[end:]
	}
	if b.backend.spmd() > 1 {
		text = b.groupText(text)
	}
	return []byte(text), nil
}

func toXLA(s shapes.Shape) xlashapes.Shape {
	return xlashapes.Make(s.DType, slices.Clone(s.Dimensions)...)
}

func fromXLA(s xlashapes.Shape) shapes.Shape {
	return shapes.Make(s.DType, slices.Clone(s.Dimensions)...)
}

var errReturned = errors.New("the function has returned already")
