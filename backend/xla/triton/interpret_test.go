package triton

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An interpreter of the part of Triton's IR that the kernels consist of: what a program of a grid does to buffers, read
// as the dialect's reference has it. It runs the very text that the compiler gets.

// tensor is a value: numbers, or places in a buffer. Integers, and floats of 32 bits or less, are exact in a float64.
type tensor struct {
	dims   []int // none for a scalar
	elem   string
	data   []float64
	buffer *buffer // of pointers
}

// buffer is an operand or a result of a call. A place that nothing was written to is NaN.
type buffer struct {
	name string
	elem string
	data []float64
}

// statement is a line of IR with the regions behind it.
type statement struct {
	text string
	body []statement
}

// program is one place of the grid, as it runs.
type program struct {
	at     [3]int
	values map[string]tensor
}

type fault struct{ text string }

func fail(format string, args ...any) { panic(fault{fmt.Sprintf(format, args...)}) }

// run runs a call for all of its grid.
func run(t *testing.T, c Call, buffers []*buffer) {
	t.Helper()
	var line string
	defer func() {
		if f, ok := recover().(fault); ok {
			t.Fatalf("%s: %s: %s", c.Kernel.Name, line, f.text)
		}
	}()
	lines := strings.Split(c.IR, "\n")
	head := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "tt.func") })
	arguments := regexp.MustCompile(`(%\w+): !tt\.ptr<(\w+)>`).FindAllStringSubmatch(lines[head], -1)
	if len(arguments) != len(buffers) {
		fail("it takes %d buffers, and is given %d", len(arguments), len(buffers))
	}
	rest := lines[head+1:]
	body := parseRegion(&rest)
	for x := range c.Grid[0] {
		for y := range c.Grid[1] {
			for z := range c.Grid[2] {
				p := program{at: [3]int{x, y, z}, values: map[string]tensor{}}
				for i, a := range arguments {
					if buffers[i].elem != a[2] {
						fail("buffer %s is of %s, and the kernel's of %s", buffers[i].name, buffers[i].elem, a[2])
					}
					p.values[a[1]] = tensor{elem: "ptr", data: []float64{0}, buffer: buffers[i]}
				}
				p.block(body, &line)
			}
		}
	}
}

// parseRegion reads up to the line that closes the region.
func parseRegion(lines *[]string) (region []statement) {
	for len(*lines) > 0 {
		l := strings.TrimSpace((*lines)[0])
		*lines = (*lines)[1:]
		switch {
		case l == "":
		case strings.HasPrefix(l, "}"):
			if closing := strings.TrimPrefix(l, "}"); closing != "" && len(region) > 0 {
				region = append(region, statement{text: closing}) // of tt.reduce
			}
			return region
		case strings.HasSuffix(l, "{"):
			region = append(region, statement{text: l, body: parseRegion(lines)})
		default:
			region = append(region, statement{text: l})
		}
	}
	return region
}

var (
	assigned = regexp.MustCompile(`^(%\w+)(?::\d+)? = (.*)$`)
	named    = regexp.MustCompile(`%\w+(?:#\d+)?`)
	typed    = regexp.MustCompile(`tensor<([0-9x]*x)?(!tt\.ptr<\w+>|\w+)>`)
	operator = regexp.MustCompile(`^"?([a-z_]+\.[a-z_0-9]+)"?`)
	looping  = regexp.MustCompile(`^scf\.for (%\w+) = (%\w+) to (%\w+) step (%\w+)`)
	passed   = regexp.MustCompile(`(%\w+) = (%\w+(?:#\d+)?)`)
)

// block runs statements, and returns what the last of them yields.
func (p *program) block(region []statement, line *string) []tensor {
	for _, s := range region {
		*line = s.text
		name, text := "", s.text
		if m := assigned.FindStringSubmatch(s.text); m != nil {
			name, text = m[1], m[2]
		}
		op := operator.FindStringSubmatch(text)
		if op == nil {
			continue // a block's arguments, or what closes a region
		}
		switch op[1] {
		case "scf.yield", "tt.reduce.return", "tt.reduce":
			if op[1] != "tt.reduce" || strings.HasPrefix(text, "tt.reduce.return") {
				return p.operands(text)
			}
		case "tt.return":
			return nil
		case "scf.if":
			if p.operands(text)[0].data[0] != 0 {
				p.block(s.body, line)
			}
			continue
		case "scf.for":
			p.set(name, p.loop(text, s.body, line)...)
			continue
		}
		if op[1] == "tt.reduce" {
			p.set(name, p.reduce(text, s.body, line))
			continue
		}
		if out, ok := p.operation(op[1], text); ok {
			p.set(name, out)
		}
	}
	return nil
}

func (p *program) set(name string, values ...tensor) {
	for i, v := range values {
		if i == 0 {
			p.values[name] = v
		}
		p.values[fmt.Sprintf("%s#%d", name, i)] = v
	}
}

// operands are the values named in a text, up to its types.
func (p *program) operands(text string) (values []tensor) {
	for _, name := range named.FindAllString(text, -1) {
		v, ok := p.values[name]
		if !ok {
			fail("%s is not known", name)
		}
		values = append(values, v)
	}
	return values
}

func (p *program) loop(text string, body []statement, line *string) []tensor {
	m := looping.FindStringSubmatch(text)
	var names []string
	var carried []tensor
	for _, pair := range passed.FindAllStringSubmatch(text[len(m[0]):], -1) {
		names = append(names, pair[1])
		carried = append(carried, p.values[pair[2]])
	}
	limits := [3]int{}
	for i := range limits {
		limits[i] = int(p.values[m[2+i]].data[0])
	}
	for at := limits[0]; at < limits[1]; at += limits[2] {
		p.values[m[1]] = tensor{elem: "i32", data: []float64{float64(at)}}
		for i, name := range names {
			p.values[name] = carried[i]
		}
		carried = p.block(body, line)
		if len(carried) != len(names) {
			fail("a loop over %d values yields %d", len(names), len(carried))
		}
	}
	return carried
}

var axisOf = regexp.MustCompile(`axis = (\d+)`)

func number(re *regexp.Regexp, text string) int {
	n, err := strconv.Atoi(re.FindStringSubmatch(text)[1])
	if err != nil {
		fail("%v", err)
	}
	return n
}

// reduce folds an axis with the region's operation.
func (p *program) reduce(text string, body []statement, line *string) tensor {
	in, axis := p.operands(text)[0], number(axisOf, text)
	arguments := named.FindAllString(body[0].text, -1)
	inner, outer := 1, 1
	for i, d := range in.dims {
		if i < axis {
			outer *= d
		} else if i > axis {
			inner *= d
		}
	}
	out := tensor{elem: in.elem, dims: slices.Delete(slices.Clone(in.dims), axis, axis+1),
		data: make([]float64, outer*inner)}
	for o := range outer {
		for i := range inner {
			sum := in.data[o*in.dims[axis]*inner+i]
			for k := 1; k < in.dims[axis]; k++ {
				for j, x := range []float64{sum, in.data[(o*in.dims[axis]+k)*inner+i]} {
					p.values[arguments[j]] = tensor{elem: in.elem, data: []float64{x}}
				}
				sum = p.block(body[1:], line)[0].data[0]
			}
			out.data[o*inner+i] = sum
		}
	}
	return out
}

// resultOf reads the type of an operation's result, the last one of its text.
func resultOf(text string) (t tensor) {
	all := typed.FindAllStringSubmatch(text, -1)
	if len(all) == 0 || !strings.HasSuffix(text, all[len(all)-1][0]) {
		t.elem, t.data = text[strings.LastIndexByte(text, ' ')+1:], make([]float64, 1)
		return t
	}
	m := all[len(all)-1]
	t.elem = m[2]
	size := 1
	for d := range strings.SplitSeq(strings.TrimSuffix(m[1], "x"), "x") {
		n, err := strconv.Atoi(d)
		if err != nil {
			fail("type %s: %v", m[0], err)
		}
		t.dims = append(t.dims, n)
		size *= n
	}
	t.data = make([]float64, size)
	return t
}

// round makes x one of its type's numbers.
func round(elem string, x float64) float64 {
	switch elem {
	case "f32":
		return float64(float32(x))
	case "i32":
		if x != math.Trunc(x) || x < math.MinInt32 || x > math.MaxInt32 {
			fail("%g is no number of 32 bits", x)
		}
	case "bf16":
		bits := math.Float32bits(float32(x))
		return float64(math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff))
	}
	return x
}
