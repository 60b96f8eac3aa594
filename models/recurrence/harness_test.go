package recurrence_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models/recurrence"
	"github.com/quire/quire/tokenqueue"
)

// Sizes of the steps of tests.
const (
	stepTokens = 23
	stepSeqs   = 5
	pageSize   = 4
	perSeq     = 8
	pages      = 48
)

// backends run kernels, plain forms, and plain forms in pure Go.
var backends = map[string]func(t testing.TB) compute.Backend{
	"kernels": func(t testing.TB) compute.Backend { return testenv.XLA(t) },
	"plain":   func(t testing.TB) compute.Backend { return testenv.XLAWithoutKernels(t) },
	"go":      testenv.Go,
}

// operation is what a test runs: from inputs [T, width], a cache of states and the owners of the tokens it computes
// outputs [T, out] and the next cache.
type operation struct {
	width, out, state int
	dtype             dtypes.DType
	weights           []*tensors.Tensor
	build             func(in, cache *Node, weights []*Node, rows recurrence.Rows) (out, after *Node)
}

// machine runs steps of an operation, and has the table of pages.
type machine struct {
	t     *testing.T
	o     operation
	exec  *Exec
	cache *tensors.Tensor
	used  int
	seqs  []*sequence
}

// sequence is a row: its inputs, its results, and its pages.
type sequence struct {
	in      [][]float32
	out     [][]float32
	pages   []int32
	nowhere bool // its tokens are in no page
}

func newMachine(t *testing.T, backend compute.Backend, o operation) *machine {
	t.Helper()
	m := &machine{t: t, o: o}
	exec, err := NewExec(backend, func(in []*Node) []*Node {
		batch := tokenqueue.PageBatchInfo{PageIndices: in[2], SeqLens: in[3], CuQLens: in[4], NumSeqs: in[5],
			NewTokenDests: in[6], TokenSeqs: in[7], PosIDs: in[8], PageSize: pageSize}
		out, after := o.build(ConvertDType(in[0], o.dtype), in[1], in[9:], recurrence.RowsOf(batch))
		return []*Node{ConvertDType(out, dtypes.Float32), after}
	})
	if err != nil {
		t.Fatal(err)
	}
	m.exec = exec
	m.cache = tensors.FromShape(shapes.Make(dtypes.Float32, pages, o.state))
	return m
}

// page gives a sequence a new page, with rubbish in it.
func (m *machine) page(s *sequence) {
	s.pages = append(s.pages, int32(m.used))
	m.used++
}

// clone begins a sequence with the first n tokens of another, which has no more or n is a border of pages: whole pages
// are shared, a partial one is copied.
func (m *machine) clone(of *sequence, n int) *sequence {
	s := &sequence{in: of.in, out: slices.Clone(of.out[:n]), pages: slices.Clone(of.pages[:n/pageSize])}
	if n%pageSize > 0 {
		if len(of.out) != n {
			m.t.Fatal("this page has a state behind another token")
		}
		m.page(s)
		states := tensors.MustCopyFlatData[float32](m.cache)
		copy(states[int(s.pages[n/pageSize])*m.o.state:][:m.o.state], states[int(of.pages[n/pageSize])*m.o.state:])
		m.cache = tensors.FromFlatDataAndDimensions(states, pages, m.o.state)
	}
	m.seqs = append(m.seqs, s)
	return s
}

// step runs the next counts[i] tokens of sequences.
func (m *machine) step(list []*sequence, counts []int) {
	in := make([]float32, stepTokens*m.o.width)
	ints := func(n, value int) []int32 { return slices.Repeat([]int32{int32(value)}, n) }
	pageIndices, lens, begins := ints(stepSeqs*perSeq, -1), ints(stepSeqs, 0), ints(stepSeqs+1, 0)
	dests, owners, positions := ints(stepTokens, pages*pageSize), ints(stepTokens, -1), ints(stepTokens, -1)
	at := 0
	for i, s := range list {
		begins[i] = int32(at)
		for range counts[i] {
			pos := len(s.out)
			if pos/pageSize == len(s.pages) && !s.nowhere {
				m.page(s)
			}
			copy(in[at*m.o.width:], s.in[pos])
			if !s.nowhere {
				dests[at] = s.pages[pos/pageSize]*pageSize + int32(pos%pageSize)
			}
			owners[at], positions[at] = int32(i), int32(pos)
			s.out = append(s.out, nil)
			at++
		}
		copy(pageIndices[i*perSeq:], s.pages)
		lens[i] = int32(len(s.out))
	}
	for i := len(list); i <= stepSeqs; i++ {
		begins[i] = int32(at)
	}
	args := []any{tensors.FromFlatDataAndDimensions(in, stepTokens, m.o.width), m.cache,
		tensors.FromFlatDataAndDimensions(pageIndices, stepSeqs, perSeq), lens, begins, int32(len(list)), dests, owners,
		positions}
	for _, w := range m.o.weights {
		args = append(args, w)
	}
	results, err := m.exec.Exec(args...)
	if err != nil {
		m.t.Fatal(err)
	}
	out := tensors.MustCopyFlatData[float32](results[0])
	m.cache = results[1]
	for i, s := range list {
		for k := range counts[i] {
			row := int(begins[i]) + k
			s.out[len(s.out)-counts[i]+k] = slices.Clone(out[row*m.o.out:][:m.o.out])
		}
	}
}

// run gives sequences of random lengths to steps, cut at random, with clones on the way, and returns them.
func (m *machine) run(inputs [][][]float32, random *rand.Rand) []*sequence {
	for _, in := range inputs {
		m.seqs = append(m.seqs, &sequence{in: in})
	}
	for {
		var list []*sequence
		var counts []int
		room := stepTokens
		for _, i := range random.Perm(len(m.seqs)) {
			s := m.seqs[i]
			left := len(s.in) - len(s.out)
			if left == 0 || len(list) == stepSeqs || room == 0 || random.IntN(4) == 0 {
				continue
			}
			n := 1 + random.IntN(min(left, room))
			list, counts, room = append(list, s), append(counts, n), room-n
		}
		if len(list) > 0 {
			m.step(list, counts)
		}
		done := !slices.ContainsFunc(m.seqs, func(s *sequence) bool { return len(s.out) < len(s.in) })
		if done {
			return m.seqs
		}
		if s := m.seqs[random.IntN(len(m.seqs))]; len(m.seqs) < len(inputs)+2 && len(s.out) > 0 {
			n := len(s.out)
			if random.IntN(2) == 0 {
				n -= n % pageSize
			}
			m.clone(s, n)
		}
	}
}

// inputs are three sequences of random numbers.
func inputs(width int, random *rand.Rand) [][][]float32 {
	all := make([][][]float32, 3)
	for i, n := range []int{1 + random.IntN(9), 17, perSeq * pageSize} {
		for range n {
			token := make([]float32, width)
			for k := range token {
				token[k] = float32(random.NormFloat64())
			}
			all[i] = append(all[i], token)
		}
	}
	return all
}

// checkNowhere runs a sequence whose tokens are in no page together with the same one with pages. Their results are
// the same, and only the latter's states change.
func checkNowhere(t *testing.T, backend compute.Backend, o operation, random *rand.Rand) {
	t.Helper()
	m := newMachine(t, backend, o)
	in := inputs(o.width, random)[1][:9]
	kept, lost := &sequence{in: in}, &sequence{in: in, nowhere: true}
	m.step([]*sequence{kept, lost}, []int{9, 9})
	if !reflect.DeepEqual(kept.out, lost.out) {
		t.Error("tokens in no page have other results")
	}
	states := tensors.MustCopyFlatData[float32](m.cache)
	if slices.ContainsFunc(states[m.used*o.state:], func(x float32) bool { return x != 0 }) {
		t.Error("the states of tokens in no page were written")
	}
}
