package seqtable_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// onBackends runs the test on GoMLX's own backend and on XLA:CPU.
func onBackends(t *testing.T, test func(t *testing.T, backend compute.Backend)) {
	t.Run("go", func(t *testing.T) {
		// The programs are small: starting goroutines costs more than it gains.
		backend, err := gobackend.New("ops_sequential")
		if err != nil {
			t.Fatal(err)
		}
		test(t, backend)
	})
	t.Run("xla", func(t *testing.T) { test(t, testenv.XLA(t)) })
}

// state is the three tables together, as the engine holds them.
type state struct {
	Seqs  seqtable.Table
	Pages pagetable.Table
	Queue tokenqueue.Queue
}

// sizes are the static sizes of a state and of the steps it is put through.
type sizes struct {
	slots, pagesPerSeq, pageSize, pages, queue, tokens, maxSeqs, clones int
}

func (z sizes) new(g *Graph) state {
	return state{
		Seqs:  seqtable.New(g, z.slots, z.pagesPerSeq, z.pageSize),
		Pages: pagetable.NewKeeping(g, z.pages),
		Queue: tokenqueue.New(g, z.queue),
	}
}

// program is one verb as a jitted function of the state and arguments. So that one transfer is enough to compare, the
// state goes in and comes out as one vector, int32, and what the verb returns besides comes out as another.
type program struct {
	exec *Exec
}

type verb func(s state, args []*Node) (state, []*Node)

func compile(t testing.TB, backend compute.Backend, z sizes, v verb) program {
	t.Helper()
	exec, err := NewExec(backend, func(inputs []*Node) []*Node {
		next, results := v(z.unflatten(inputs[0]), inputs[1:])
		return []*Node{flatten(tree.Leaves(next)),
			flatten(append(results, ScalarZero(inputs[0].Graph(), dtypes.Int32)))}
	})
	if err != nil {
		t.Fatal(err)
	}
	return program{exec: exec}
}

// unflatten is the inverse of flatten for a state.
func (z sizes) unflatten(vector *Node) state {
	like := z.new(vector.Graph())
	leaves := tree.Leaves(like)
	at := 0
	for i, leaf := range leaves {
		shape := leaf.Shape()
		part := SliceAxis(vector, 0, AxisRange(at, at+shape.Size()))
		leaves[i] = ConvertDType(Reshape(part, shape.Dimensions...), shape.DType)
		at += shape.Size()
	}
	return tree.Rebuild(like, leaves)
}

func flatten(nodes []*Node) *Node {
	flat := make([]*Node, len(nodes))
	for i, n := range nodes {
		flat[i] = Reshape(ConvertDType(n, dtypes.Int32), n.Shape().Size())
	}
	return Concatenate(flat, 0)
}

// run applies the program and returns the next state, on the device and as values, and the results.
func (p program) run(t interface{ Fatal(...any) }, state any, args ...any) (next *tensors.Tensor, values,
	results []int32) {
	out, err := p.exec.Exec(append([]any{state}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out[0], tensors.MustCopyFlatData[int32](out[0]), tensors.MustCopyFlatData[int32](out[1])
}

// model is the twin of state.
type model struct {
	seqs  *seqtable.Host
	pages *pagetable.Host
	queue *tokenqueue.Host
}

func (z sizes) model() model {
	return model{
		seqs:  seqtable.NewHost(z.slots, z.pagesPerSeq, z.pageSize),
		pages: pagetable.NewKeepingHost(z.pages),
		queue: &tokenqueue.Host{Capacity: z.queue},
	}
}

// vector is the state as the programs flatten it.
func (m model) vector() []int32 {
	var lens, rows, used, sources, owners []int32
	for _, r := range m.seqs.Rows {
		lens, sources, owners = append(lens, int32(r.Len)), append(sources, r.Source), append(owners, r.Owner)
		rows = append(rows, pad(r.Pages, m.seqs.PagesPerSeq, -1)...)
		if r.Used {
			used = append(used, 1)
		} else {
			used = append(used, 0)
		}
	}
	tokens, slots, pos := columns(m.queue.Entries, m.queue.Capacity)
	v := join(lens, rows, used, sources, owners, m.pages.RefCounts, m.pages.Ages, m.pages.Takers,
		[]int32{m.pages.Clock}, tokens, slots, pos)
	return append(v, int32(len(m.queue.Entries)))
}

// counts is what Check must find: nothing but the tokens that a test left in the queue for sequences that are gone, and
// partial pages that lazy forks share.
func (m model) counts() []int32 {
	counts := make([]int32, len(seqtable.Rules))
	for _, r := range m.seqs.Rows {
		if r.Len%m.seqs.PageSize != 0 && m.pages.RefCounts[r.Pages[len(r.Pages)-1]] > 1 {
			counts[6]++
		}
	}
	for _, e := range m.queue.Entries {
		if e.Slot < 0 || int(e.Slot) >= len(m.seqs.Rows) || !m.seqs.Rows[e.Slot].Used {
			counts[10]++
		}
	}
	return counts
}

// pack takes the oldest tokens of the queue for a step, sorted by slot, then position. args are what the program step
// gets: these, and the queue without them.
func (m *machine) pack() (packed []tokenqueue.Entry, args []any) {
	n := min(m.z.tokens, len(m.queue.Entries))
	packed = slices.Clone(m.queue.Entries[:n])
	m.queue.Entries = slices.Delete(m.queue.Entries, 0, n)
	slices.SortStableFunc(packed, func(a, b tokenqueue.Entry) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Pos, b.Pos))
	})
	add := func(entries []tokenqueue.Entry, size int) {
		tokens, slots, pos := columns(entries, size)
		args = append(args, tokens, slots, pos, int32(len(entries)))
	}
	add(packed, m.z.tokens)
	add(m.queue.Entries, m.z.queue)
	return packed, args
}

func columns(entries []tokenqueue.Entry, n int) (tokens, slots, pos []int32) {
	for _, e := range entries {
		tokens, slots, pos = append(tokens, e.Token), append(slots, e.Slot), append(pos, e.Pos)
	}
	return pad(tokens, n, -1), pad(slots, n, -1), pad(pos, n, -1)
}

func pad(v []int32, n int, with int32) []int32 {
	out := make([]int32, 0, n)
	out = append(out, v...)
	for len(out) < n {
		out = append(out, with)
	}
	return out
}

func join(parts ...[]int32) []int32 {
	var all []int32
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// batchVector is a batch as the programs flatten it.
func (z sizes) batchVector(b seqtable.Batch, packed []tokenqueue.Entry) []int32 {
	var rows []int32
	for _, r := range b.PageIndices {
		rows = append(rows, pad(r, z.pagesPerSeq, -1)...)
	}
	_, _, pos := columns(packed, z.tokens)
	return join(
		pad(b.SlotIDs, z.maxSeqs, -1), pad(rows, z.maxSeqs*z.pagesPerSeq, -1), pad(b.SeqLens, z.maxSeqs, 0),
		pad(b.CuQLens, z.maxSeqs+1, b.CuQLens[len(b.CuQLens)-1]), []int32{int32(len(b.SlotIDs))},
		pad(b.NewTokenDests, z.tokens, int32(z.pages*z.pageSize)), pad(b.TokenSeqs, z.tokens, -1), pos)
}
