package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tree"
)

// Run draws the completions of requests and yields them as they finish.
//
// A request that can't be run yields a completion with Err set, and the job goes on. An error beside a nil completion ends it: the device
// failed, or ctx was cancelled. Requests are taken as there is room for them, from another goroutine than the caller's.
// Stopping the iteration stops the engine's work on it.
func (e *Engine) Run(ctx context.Context, requests iter.Seq[*Request]) iter.Seq2[*Completion, error] {
	return func(yield func(*Completion, error) bool) {
		e.running.Lock()
		defer e.running.Unlock()
		ctx, cancel := context.WithCancel(ctx)
		intake := make(chan *Request, e.plan.MaxSeqs)
		out := make(chan *Completion, 4*e.plan.MaxSeqs)
		go func() {
			defer close(intake)
			for r := range requests {
				select {
				case intake <- r:
				case <-ctx.Done():
					return
				}
			}
		}()
		failed := make(chan error, 1)
		go func() {
			defer close(out)
			failed <- e.run(ctx, intake, out)
		}()
		stopped := false
		for c := range out {
			if !stopped && !yield(c, nil) {
				stopped = true
				cancel()
			}
		}
		cancel()
		for range intake { // the requests' goroutine ends before Run does
		}
		if err := <-failed; err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// job is one Run.
type job struct {
	e      *Engine
	sched  *scheduler
	intake <-chan *Request
	open   bool // intake may have more
	out    chan<- *Completion
	drawn  chan *drawnCall
	ended  time.Time // of the last call
	start  time.Time
}

func (e *Engine) run(ctx context.Context, intake <-chan *Request, out chan<- *Completion) error {
	if e.state == nil {
		if err := e.reset(); err != nil {
			return err
		}
	}
	j := &job{e: e, sched: newScheduler(e), intake: intake, open: true, out: out, drawn: make(chan *drawnCall, 2), start: time.Now()}
	e.stats = Stats{StartSeconds: e.stats.StartSeconds, Pages: e.plan.Pages}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for c := range j.drawn {
			e.drain(c, func(done *Completion) bool { return j.emit(ctx, done) })
		}
	}()
	err := j.loop(ctx)
	close(j.drawn)
	<-drained
	e.stats.WallSeconds = time.Since(j.start).Seconds()
	if err != nil {
		// The state is in the middle of something: the next run starts with an empty one.
		finalize(e.state)
		e.state = nil
	}
	return err
}

func (j *job) emit(ctx context.Context, c *Completion) bool {
	select {
	case j.out <- c:
		return true
	case <-ctx.Done():
		return false
	}
}

// loop alternates between admitting what waits and running a call, until nothing is left. While a call runs, the drain turns the last
// one's tokens into completions.
func (j *job) loop(ctx context.Context) error {
	s := j.sched
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.settle()
		if err := j.fill(ctx); err != nil {
			return err
		}
		s.admit()
		if !j.open && len(s.waiting) == 0 && s.active == 0 && len(s.leaving) == 0 {
			return j.finish()
		}
		release := s.takeRelease()
		var err error
		if s.shouldPrefill() {
			in, tokens := s.prefillCall()
			in["release"] = release
			j.e.stats.PrefillTokens += tokens
			_, err = j.call("prefill", in)
		} else {
			_, err = j.call("decode", map[string]any{"release": release, "enough_finished": []int32{s.enoughFinished(j.open)}})
		}
		if err != nil {
			return err
		}
	}
}

// ErrPagesLost says that pages were not free at the end of a run, when nothing holds them: a fault of the engine.
var ErrPagesLost = errors.New("pages were lost, please report this")

// finish releases the rows that the last calls left, and checks that all pages are free then.
func (j *job) finish() error {
	free, err := j.call("decode", map[string]any{"release": j.sched.takeRelease(), "enough_finished": []int32{0}})
	if err == nil && (free != j.e.plan.Pages || j.sched.freePages != j.e.plan.Pages) {
		err = fmt.Errorf("%w: %d of %d are free on the device, %d by the host's account", ErrPagesLost, free, j.e.plan.Pages, j.sched.freePages)
	}
	return err
}

// fill takes requests in: what is there, or the next one if there is nothing else to do.
func (j *job) fill(ctx context.Context) error {
	for j.open && j.sched.wants() > 0 {
		var r *Request
		if j.sched.active == 0 && len(j.sched.waiting) == 0 {
			select {
			case r, j.open = <-j.intake:
			case <-ctx.Done():
				return ctx.Err()
			}
		} else {
			select {
			case r, j.open = <-j.intake:
			default:
				return nil
			}
		}
		if !j.open {
			break
		}
		j.e.stats.Requests++
		if err := j.e.check(r); err != nil {
			if !j.emit(ctx, &Completion{Request: r, Generation: r.FirstGeneration, PromptTokens: len(r.Tokens), FinishReason: FinishError, Err: err}) {
				return ctx.Err()
			}
			continue
		}
		j.e.stats.PromptTokens += len(r.Tokens)
		j.sched.add(r)
	}
	return nil
}

// call runs a program, frees the rows of the completions that ended, hands what was drawn to the drain, and returns how many pages are
// free on the device.
func (j *job) call(name string, in map[string]any) (freePages int, err error) {
	e, s := j.e, j.sched
	p := e.programs[name]
	begin := time.Now()
	if !j.ended.IsZero() {
		e.stats.HostSeconds += begin.Sub(j.ended).Seconds()
	}
	args := append([]compute.Buffer(nil), e.state...)
	var own []compute.Buffer
	defer func() { finalize(own) }()
	for _, i := range p.inputs {
		b, err := e.cfg.Backend.BufferFromFlatData(0, in[i.name], i.shape)
		if err != nil {
			return 0, fmt.Errorf("program %s, input %s: %w", name, i.name, err)
		}
		own = append(own, b)
	}
	args = append(append(args, own...), e.weights...)
	donate := make([]bool, len(args))
	for i := range p.numState {
		donate[i] = true
	}
	results, err := p.executable.Execute(args, donate, 0)
	e.state = nil // donated
	if err != nil {
		return 0, fmt.Errorf("program %s: %w", name, err)
	}
	e.state = results[:p.numState]
	own = append(own, results[p.numState:]...)
	got, err := readOutput(p.output, results[p.numState:])
	if err != nil {
		return 0, fmt.Errorf("program %s: %w", name, err)
	}
	j.ended = time.Now()
	j.account(name, got, j.ended.Sub(begin).Seconds())
	if err := got.check(); err != nil {
		return 0, fmt.Errorf("program %s: %w", name, err)
	}
	call := &drawnCall{rows: append([]*sequence(nil), s.rows...), columns: p.columns, counts: got.ints("Counts"), finish: got.ints("Finish"),
		tokens: got.ints("Tokens"), logprobs: got.floats("Logprobs"), processedProbs: got.floats("Processed")}
	for slot, seq := range call.rows {
		if seq != nil && call.finish[slot] != running {
			s.end(seq)
		}
	}
	j.drawn <- call
	return int(got.ints("EndFree")[0]), nil
}

func (j *job) account(name string, got hostOutput, seconds float64) {
	st := &j.e.stats
	tokens := 0
	for _, n := range got.ints("Counts") {
		tokens += int(n)
	}
	if tokens > 0 && st.FirstTokenSeconds == 0 {
		st.FirstTokenSeconds = time.Since(j.start).Seconds()
	}
	st.GeneratedTokens += tokens
	steps := int(got.ints("Steps")[0])
	if name == "prefill" {
		st.PrefillSeconds += seconds
		st.PrefillSteps += steps
		st.PrefillCalls++
	} else {
		st.DecodeSeconds += seconds
		st.DecodeSteps += steps
		st.DecodeCalls++
		st.DecodeTokens += tokens
	}
	st.PeakPages = max(st.PeakPages, j.e.plan.Pages-int(got.ints("MinFree")[0]))
	j.e.log.Debug("call", "program", name, "steps", steps, "tokens", tokens, "seconds", seconds,
		"active", j.sched.active, "waiting", len(j.sched.waiting), "free_pages", got.ints("FreePages")[:min(steps, len(got.ints("FreePages")))])
}

// hostOutput is a program's output on the host, by the names of its leaves.
type hostOutput map[string]any

func (h hostOutput) ints(name string) []int32     { return h[name].([]int32) }
func (h hostOutput) floats(name string) []float32 { return h[name].([]float32) }

// leaf is the name and shape of one array of an output.
type leaf struct {
	name  string
	shape shapes.Shape
}

func outputLeaves(out output) []leaf {
	names, nodes := tree.Names(out), tree.Leaves(out)
	leaves := make([]leaf, len(names))
	for i, n := range nodes {
		leaves[i] = leaf{names[i], n.Shape()}
	}
	return leaves
}

func readOutput(leaves []leaf, buffers []compute.Buffer) (hostOutput, error) {
	h := make(hostOutput, len(leaves))
	for i, l := range leaves {
		flat := reflect.MakeSlice(reflect.SliceOf(l.shape.DType.GoType()), l.shape.Size(), l.shape.Size()).Interface()
		if err := buffers[i].ToFlatData(flat); err != nil {
			return nil, fmt.Errorf("reading %s: %w", l.name, err)
		}
		h[l.name] = flat
	}
	return h, nil
}

// check turns what the device noted into errors.
func (h hostOutput) check() error {
	status := make([]int32, 0, 4)
	for _, name := range []string{"Status.Code", "Status.Need", "Status.Have", "Status.Slot"} {
		status = append(status, h.ints(name)[0])
	}
	if err := seqtable.StatusError(status); err != nil {
		return err
	}
	if counts, ok := h["Rules"]; ok {
		return seqtable.CheckError(counts.([]int32))
	}
	return nil
}
