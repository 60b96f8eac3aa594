package device

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/ops/tree"
)

// hostLog is draftLog in plain Go: it keeps texts where the log has keys.
type hostLog struct {
	size, slots int
	all         []hostLogged
	last        []int // number + 1 of what each slot drew last
}

type hostLogged struct {
	begin, end []int32 // the sequence's beginning, and its last tokens up to here
	token      int32
	next       int // number + 1
}

// hostText is a sequence of which the last token waits.
type hostText struct {
	prompt int
	tokens []int32
}

func (s hostText) begin() []int32 { return s.tokens[:min(beginning, s.prompt)] }

// end is the last k tokens, which are -1 before the first.
func (s hostText) end(k int) []int32 {
	return append(slices.Repeat([]int32{-1}, k), s.tokens...)[len(s.tokens):]
}

func (l *hostLog) push(slot int, s hostText) {
	number := len(l.all)
	l.all = append(l.all, hostLogged{begin: slices.Clone(s.begin()), end: s.end(longestMatch),
		token: s.tokens[len(s.tokens)-1]})
	if before := l.last[slot]; before > 0 && number-before < l.size-l.slots {
		l.all[before-1].next = number + 1
	}
	l.last[slot] = number + 1
}

func (l *hostLog) find(s hostText, most int) (drafts []int32, level int) {
	at := 0
	for number, e := range l.all {
		if number < len(l.all)-l.size || e.next == 0 || !slices.Equal(e.begin, s.begin()) {
			continue
		}
		n := 0
		for i, k := range loggedMatches {
			if slices.Equal(e.end[longestMatch-k:], s.end(k)) {
				n = i + 1
			}
		}
		if n > 0 && n >= level {
			at, level = number, n
		}
	}
	if level == 0 {
		return nil, 0
	}
	for next := l.all[at].next; next > 0 && len(drafts) < most; next = l.all[next-1].next {
		drafts = append(drafts, l.all[next-1].token)
	}
	return drafts, level
}

// Drafts of the log are what was drawn behind the end of a sequence in another one that begins as it does, also where
// that one has ended: over random sequences, in a log that is full again and again.
func TestLoggedDrafts(t *testing.T) {
	t.Run("kernels", func(t *testing.T) { loggedDrafts(t, testenv.XLA(t)) })
	t.Run("plain", func(t *testing.T) { loggedDrafts(t, testenv.XLAWithoutKernels(t)) })
}

func loggedDrafts(t *testing.T, backend compute.Backend) {
	const slots, size, pageSize, pages, most = 4, 64, 8, 5, 6
	sp := speculation{network: network{Sizes: Sizes{Drafts: Drafting{Most: most, Width: 8, Logged: size}}}}
	sp.Slots, sp.PageSize, sp.PagesPerSeq = slots, pageSize, pages
	var like draftLog
	stateOf := func(texts, prompts *Node) (st state) {
		g := texts.Graph()
		st.Sequences.PageIndices = Iota(g, shapes.Make(dtypes.Int32, slots*pages), 0)
		st.Extras.Drafts.Tokens = texts
		st.Rows.PromptLens = prompts
		return st
	}
	logOf := func(nodes []*Node) draftLog {
		like = sp.newDraftLog(nodes[0].Graph())
		return tree.Rebuild(like, nodes)
	}
	push, err := NewExec(backend, func(in []*Node) []*Node { // texts, prompts, places, tokens, whose, log
		l := logOf(in[5:])
		l = l.push(sp, stateOf(in[0], in[1]), samplers{Slots: in[4], Positions: in[2]}, in[3])
		return tree.Leaves(l)
	})
	if err != nil {
		t.Fatal(err)
	}
	find, err := NewExec(backend, func(in []*Node) []*Node { // the same; the rows that are wanted are those of someone
		l := logOf(in[5:])
		wanted := scan.Count(GreaterOrEqual(in[4], ZerosLike(in[4])))
		tokens, counts, matches := l.find(sp.keysOf(stateOf(in[0], in[1]), in[4], in[2], in[3]), most, wanted)
		return []*Node{tokens, counts, matches}
	})
	if err != nil {
		t.Fatal(err)
	}

	random := rand.New(rand.NewPCG(26, 3))
	host := &hostLog{size: size, slots: slots, last: make([]int, slots)}
	log := []any{}
	for range len(loggedMatches) + 2 {
		log = append(log, make([]int32, size))
	}
	log = append(log, make([]int32, slots), int32(0))
	begin := func() hostText {
		s := hostText{prompt: 1 + random.IntN(20)}
		for i := range s.prompt { // few beginnings
			s.tokens = append(s.tokens, int32(i*(s.prompt%2)))
		}
		return s
	}
	all := []hostText{begin(), begin(), begin(), begin()}
	call := func(e *Exec, whose []int32) []*tensors.Tensor {
		texts, prompts, places, tokens := make([]int32, slots*pages*pageSize), make([]int32, slots),
			make([]int32, slots), make([]int32, slots)
		for i, s := range all {
			n := len(s.tokens) - 1
			copy(texts[i*pages*pageSize:], s.tokens[:n])
			prompts[i], places[i], tokens[i] = int32(s.prompt), int32(n), s.tokens[n]
		}
		out, err := e.Call(append([]any{texts, prompts, places, tokens, whose}, log...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	found := map[int]int{}
	for step := range 300 {
		whose := slices.Repeat([]int32{-1}, slots)
		for i := range all {
			if random.IntN(4) == 0 {
				continue
			}
			if len(all[i].tokens) == pages*pageSize || random.IntN(25) == 0 { // another sequence gets the slot
				all[i] = begin()
				host.last[i] = 0
				last := log[len(log)-2].([]int32)
				last[i] = 0
			}
			whose[i] = int32(i)
			all[i].tokens = append(all[i].tokens, int32(random.IntN(3)))
		}
		out := call(push, whose)
		for i := range log[:len(log)-1] {
			log[i] = tensors.MustCopyFlatData[int32](out[i])
		}
		log[len(log)-1] = tensors.MustCopyFlatData[int32](out[len(log)-1])[0]
		for i := range all {
			if whose[i] >= 0 {
				host.push(i, all[i])
			}
		}
		wanted := random.IntN(slots + 1)
		out = call(find, append([]int32{0, 1, 2, 3}[:wanted:wanted], slices.Repeat([]int32{-1}, slots-wanted)...))
		tokens, counts, matches := tensors.MustCopyFlatData[int32](out[0]), tensors.MustCopyFlatData[int32](out[1]),
			tensors.MustCopyFlatData[int32](out[2])
		for i, s := range all[:wanted] {
			want, level := host.find(s, most)
			got := tokens[i*most:][:counts[i]]
			if int(matches[i]) != level || !slices.Equal(got, want) {
				t.Fatalf("step %d, behind %v: %v by match %d, want %v by %d", step, s.tokens, got, matches[i], want,
					level)
			}
			found[level]++
		}
	}
	if len(found) != len(loggedMatches)+1 {
		t.Errorf("matches of all lengths were to be found: %v", found)
	}
}

// Where many drafts of a class are drawn there are many of it, where few are there is one now and then, and the more
// sequences run the fewer there are.
func TestDraftsAdapt(t *testing.T) {
	const most, costRows = 15, 16
	exec, err := NewExec(testenv.XLA(t), func(drawn, refused, steps, live *Node) *Node {
		return draftTrust{drawn, refused, steps}.worth(live, most, costRows)
	})
	if err != nil {
		t.Fatal(err)
	}
	// drawn, refused, steps, classes, counts, got, ended
	learn, err := NewExec(testenv.XLA(t), func(in []*Node) []*Node {
		of := draftTrust{in[0], in[1], in[2]}.learn(in[3], in[4], in[5], GreaterThan(in[6], ZerosLike(in[6])))
		of = of.stepped(Equal(in[2], in[2]))
		return []*Node{of.Drawn, of.Refused, of.Steps}
	})
	if err != nil {
		t.Fatal(err)
	}
	drawn, refused, steps := make([]float32, draftClasses), make([]float32, draftClasses), int32(0)
	worth := func(live int32) []int32 {
		out, err := exec.Call(drawn, refused, steps, live)
		if err != nil {
			t.Fatal(err)
		}
		counts := tensors.MustCopyFlatData[int32](out[0])
		for c, n := range counts {
			p := float64(drawn[c]+1) / float64(drawn[c]+refused[c]+2)
			want := min(most, math.Log(float64(live)/float64(live+costRows))/math.Log(p))
			if steps == 0 {
				want = max(want, 1)
			}
			if float64(n) > want+1e-3 || float64(n) < want-1-1e-3 {
				t.Errorf("class %d of %d live: %d drafts, want %g (%g drawn, %g refused, step %d)", c, live, n, want,
					drawn[c], refused[c], steps)
			}
		}
		return counts
	}
	if first := worth(1); first[0] != 4 {
		t.Errorf("at first: %v", first)
	}
	// Class 0: all of 5 drafts are drawn, or the sequence ends; class 3: none of 2; class 9: one of 3. Slot 3 has none.
	for range 200 {
		out, err := learn.Call(drawn, refused, steps, []int32{0, 3, 9, -1, 0}, []int32{5, 2, 3, 0, 5},
			[]int32{5, 0, 1, 0, 1}, []int32{0, 0, 0, 0, 1})
		if err != nil {
			t.Fatal(err)
		}
		drawn, refused = tensors.MustCopyFlatData[float32](out[0]), tensors.MustCopyFlatData[float32](out[1])
		steps = tensors.MustCopyFlatData[int32](out[2])[0]
		worth(4)
	}
	if steps != 200%tryEvery {
		t.Errorf("%d steps", steps)
	}
	one, eight := worth(1), worth(8)
	if one[0] != most || one[3] != 0 || one[9] < 2 || one[9] > 6 || one[1] != 4 {
		t.Errorf("where one runs: %v", one)
	}
	if eight[3] != 0 || eight[9] > 1 || eight[0] != most {
		t.Errorf("where eight run: %v", eight)
	}
	steps = 0
	if tried := worth(8); tried[3] != 1 || tried[9] != 1 {
		t.Errorf("now and then: %v", tried)
	}
}
