package triton

import (
	"math"
	"regexp"
	"slices"
	"strconv"
)

var (
	constant  = regexp.MustCompile(`arith\.constant (?:dense<)?([^ >]+)>? :`)
	rangeEnd  = regexp.MustCompile(`end = (\d+)`)
	programID = regexp.MustCompile(`tt\.get_program_id ([xyz])`)
	predicate = regexp.MustCompile(`cmp[if] (\w+),`)
)

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// binary are operations on two numbers each.
var binary = map[string]func(a, b float64) float64{
	"arith.addi":  func(a, b float64) float64 { return a + b },
	"arith.addf":  func(a, b float64) float64 { return a + b },
	"arith.subi":  func(a, b float64) float64 { return a - b },
	"arith.subf":  func(a, b float64) float64 { return a - b },
	"arith.muli":  func(a, b float64) float64 { return a * b },
	"arith.mulf":  func(a, b float64) float64 { return a * b },
	"arith.divsi": func(a, b float64) float64 { return math.Trunc(a / b) },
	"arith.divf":  func(a, b float64) float64 { return a / b },
	"arith.remsi": math.Mod, "arith.maxsi": math.Max, "arith.minsi": math.Min,
	"arith.andi": func(a, b float64) float64 { return a * b },
	"arith.maxnumf": func(a, b float64) float64 {
		if math.IsNaN(a) {
			return b
		}
		if math.IsNaN(b) {
			return a
		}
		return max(a, b)
	},
}

// operation runs one without regions. A store has no result.
func (p *program) operation(op, text string) (out tensor, ok bool) {
	in := p.operands(text)
	out = resultOf(text)
	if f := binary[op]; f != nil {
		if len(in[0].data) != len(out.data) || len(in[1].data) != len(out.data) {
			fail("%d and %d numbers make %d", len(in[0].data), len(in[1].data), len(out.data))
		}
		for i := range out.data {
			out.data[i] = round(out.elem, f(in[0].data[i], in[1].data[i]))
		}
		return out, true
	}
	switch op {
	case "arith.constant":
		written := constant.FindStringSubmatch(text)[1]
		x, err := strconv.ParseFloat(written, 64)
		if written == "true" || written == "false" {
			x, err = truth(written == "true"), nil
		}
		if err != nil {
			fail("%v", err)
		}
		for i := range out.data {
			out.data[i] = round(out.elem, x)
		}
	case "tt.get_program_id":
		out.data[0] = float64(p.at[programID.FindStringSubmatch(text)[1][0]-'x'])
	case "tt.make_range":
		if number(rangeEnd, text) != len(out.data) {
			fail("the range is not as long as its type")
		}
		for i := range out.data {
			out.data[i] = float64(i)
		}
	case "arith.cmpi", "arith.cmpf":
		out = tensor{dims: in[0].dims, elem: "i1", data: make([]float64, len(in[0].data))}
		compare := map[string]func(a, b float64) bool{
			"eq": func(a, b float64) bool { return a == b }, "slt": func(a, b float64) bool { return a < b },
			"sge": func(a, b float64) bool { return a >= b },
			"ogt": func(a, b float64) bool { return a > b }, "sgt": func(a, b float64) bool { return a > b },
		}[predicate.FindStringSubmatch(text)[1]]
		for i := range out.data {
			out.data[i] = truth(compare(in[0].data[i], in[1].data[i]))
		}
	case "arith.select":
		for i := range out.data {
			if out.data[i] = in[2].data[i]; in[0].data[i] != 0 {
				out.data[i] = in[1].data[i]
			}
		}
	case "arith.extsi", "arith.truncf", "tt.expand_dims":
		for i := range out.data {
			out.data[i] = round(out.elem, in[0].data[i])
		}
		out.buffer = in[0].buffer
	case "math.exp2":
		for i := range out.data {
			out.data[i] = round(out.elem, math.Exp2(in[0].data[i]))
		}
	case "tt.splat":
		for i := range out.data {
			out.data[i] = in[0].data[0]
		}
		out.buffer = in[0].buffer
	case "tt.broadcast":
		p.broadcast(in[0], &out)
	case "tt.trans":
		rows, columns := out.dims[0], out.dims[1]
		for i := range out.data {
			out.data[i] = in[0].data[i%columns*rows+i/columns]
		}
	case "tt.addptr":
		out = tensor{dims: in[0].dims, elem: "ptr", data: slices.Clone(in[0].data), buffer: in[0].buffer}
		for i := range out.data {
			out.data[i] += in[1].data[i]
		}
	case "tt.dot":
		p.dot(in, &out)
	case "tt.load":
		out = tensor{dims: in[0].dims, elem: in[0].buffer.elem, data: make([]float64, len(in[0].data))}
		for i, at := range in[0].data {
			if len(in) > 1 && in[1].data[i] == 0 {
				out.data[i] = in[2].data[i]
				continue
			}
			out.data[i] = *in[0].buffer.at(at)
		}
	case "tt.store":
		for i, at := range in[0].data {
			if len(in) < 3 || in[2].data[i] != 0 {
				*in[0].buffer.at(at) = in[1].data[i]
			}
		}
		return out, false
	default:
		fail("operation %s is not known", op)
	}
	return out, true
}

func (b *buffer) at(place float64) *float64 {
	if place < 0 || place >= float64(len(b.data)) {
		fail("place %g of %s, which has %d", place, b.name, len(b.data))
	}
	return &b.data[int(place)]
}

func (p *program) broadcast(in tensor, out *tensor) {
	for i := range out.data {
		from, stride, rest := 0, 1, i
		for axis := len(out.dims) - 1; axis >= 0; axis-- {
			if in.dims[axis] > 1 {
				from += rest % out.dims[axis] * stride
			}
			rest /= out.dims[axis]
			stride *= in.dims[axis]
		}
		out.data[i] = in.data[from]
	}
	out.buffer = in.buffer
}

// dot multiplies [M, K] by [K, N], and adds [M, N].
func (p *program) dot(in []tensor, out *tensor) {
	m, k, n := in[0].dims[0], in[0].dims[1], in[1].dims[1]
	if in[1].dims[0] != k || !slices.Equal(in[2].dims, []int{m, n}) || m < 16 || k < 16 || n < 16 {
		fail("a product of %v by %v, added to %v", in[0].dims, in[1].dims, in[2].dims)
	}
	for i := range m {
		row := in[0].data[i*k : (i+1)*k]
		for j := range n {
			sum := in[2].data[i*n+j]
			for l, x := range row {
				if x != 0 || math.IsNaN(in[1].data[l*n+j]) {
					sum += x * in[1].data[l*n+j]
				}
			}
			out.data[i*n+j] = round("f32", sum)
		}
	}
}
