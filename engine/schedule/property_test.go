package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quire/quire/engine/prefix"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/schedule/model"
)

// letters is a stream that writes each token as a letter.
type letters struct{}

func (letters) Push(token int32) string { return string(rune('a' + token)) }
func (letters) Flush() string           { return "" }

// work is a random job and the device that it runs on.
type work struct {
	device   *model.Device
	host     *schedule.HostCache
	index    *prefix.Index
	contexts []*owned
	requests []*schedule.Request
	// operations are done between the calls of the run, and guests are requests that come by such.
	operations []operation
	guests     []*schedule.Request
	between    chan *schedule.Operation
	did        map[string]int
	inOrder    bool
	called     func(calls int) // after each call, if not nil
	stops      *room           // nil where the device finds no stop strings
}

// room has place for the stops of so many requests. It panics where what is offered has none.
type room struct {
	size int
	held map[*schedule.Request]bool
}

func (r *room) Hold(of *schedule.Request) bool {
	if r.held[of] {
		panic("stops are held twice")
	}
	if of.OnDevice {
		if len(r.held) == r.size {
			return false
		}
		r.held[of] = true
	}
	return true
}

func (r *room) Release(of *schedule.Request) {
	if r.held[of] != of.OnDevice {
		panic("stops are released that nobody held")
	}
	delete(r.held, of)
}

func (r *room) offered(of *schedule.Request) {
	if of.OnDevice && !r.held[of] {
		panic("a request is offered whose stops have no place")
	}
}

var seed = prefix.Seed("test")

// number is the tag of a request.
type number int

func (n number) RequestName() string { return strconv.Itoa(int(n)) }

// drawWork draws sizes of an engine, contexts that hold pages, and requests of which some share prefixes.
func drawWork(t *rapid.T) *work {
	s := schedule.Sizes{
		MaxSeqs:  rapid.IntRange(1, 6).Draw(t, "max seqs"),
		PageSize: rapid.IntRange(1, 4).Draw(t, "page size"), PrefixRows: rapid.IntRange(1, 5).Draw(t, "prefix rows"),
		Contexts: rapid.IntRange(0, 2).Draw(t, "contexts"), MaxRounds: rapid.IntRange(1, 8).Draw(t, "rounds"),
		PromptLimit: 64, Paged: true, PrefixCache: rapid.Bool().Draw(t, "prefix cache"),
		NameDrawn: rapid.Bool().Draw(t, "drawn tokens have names"), Mixed: rapid.Bool().Draw(t, "mixed"),
		States:  rapid.Bool().Draw(t, "pages have states"),
		Reserve: rapid.Bool().Draw(t, "reserve"), BlockPages: 2, Staged: rapid.IntRange(1, 3).Draw(t, "staged"),
	}
	s.Slots = s.MaxSeqs + rapid.IntRange(0, 2).Draw(t, "slots beyond max seqs")
	longest := rapid.IntRange(8, 40).Draw(t, "longest")
	perSeq := (longest + s.PageSize - 1) / s.PageSize
	more := 4 * perSeq
	if rapid.Bool().Draw(t, "hardly any more pages") {
		more = perSeq / 2
	}
	s.PagesPerSeq = 64 // no sequence here is longer
	s.Pages = perSeq + rapid.IntRange(0, more).Draw(t, "more pages")
	w := &work{device: model.New(s, rapid.IntRange(1, 12).Draw(t, "prefill tokens")),
		inOrder: rapid.Bool().Draw(t, "in order")}
	if s.PrefixCache {
		w.index = prefix.NewIndex(s.Pages)
	}
	w.device.Draw = func(s model.Sequence) (int32, schedule.Finish) {
		token, finish := draw(s.Tokens, s.Request, s.Generation)
		if s.Request.OnDevice && token >= 0 && stopsAt(append(slices.Clip(s.Tokens), token), s.Request) {
			finish = schedule.AtStopString
		}
		return token, finish
	}
	if rapid.Bool().Draw(t, "stops on the device") {
		w.stops = &room{size: rapid.IntRange(1, 4).Draw(t, "room for stops"), held: map[*schedule.Request]bool{}}
		w.device.Stops, w.device.Offered = true, w.stops.offered
	}
	w.device.Score, w.device.Tops = likelihood, mostTops
	w.device.ScorePlaces = w.device.PrefillTokens * rapid.IntRange(1, 4).Draw(t, "places for scores")
	if rapid.Bool().Draw(t, "host cache") {
		w.host = schedule.NewHostCache(int64(rapid.IntRange(0, 2000).Draw(t, "host bytes")))
	}
	tokens := rapid.SliceOfN(rapid.Int32Range(1, 3), 0, 5)
	common := rapid.SliceOfN(rapid.SliceOfN(rapid.Int32Range(1, 3), 0, 10), 1, 3).Draw(t, "prefixes")
	pool := s.Pages
	w.drawContexts(t, func(name string) []int32 {
		return slices.Concat(rapid.SampledFrom(common).Draw(t, "of"), tokens.Draw(t, name))
	}, &pool)
	for id := range rapid.IntRange(1, 12).Draw(t, "requests") {
		r := &schedule.Request{Tag: number(id), Context: schedule.None, N: rapid.IntRange(1, 6).Draw(t, "n"),
			First: rapid.IntRange(0, 2).Draw(t, "first"), Leaf: rapid.Bool().Draw(t, "leaf")}
		if len(w.contexts) > 0 && rapid.Bool().Draw(t, "of a context") {
			c := rapid.SampledFrom(w.contexts).Draw(t, "context of it")
			r.Context, r.Tokens = c.row, slices.Concat(c.tokens, tokens.Draw(t, "behind it"))
		} else {
			r.Tokens = slices.Concat(rapid.SampledFrom(common).Draw(t, "prefix"), tokens.Draw(t, "prompt"))
		}
		if rapid.IntRange(0, 3).Draw(t, "stops") == 0 {
			r.Stop = rapid.SliceOfN(rapid.StringMatching("[a-f]{1,2}"), 1, 2).Draw(t, "stop")
			r.OnDevice = w.stops != nil && rapid.IntRange(0, 3).Draw(t, "too large") > 0
		}
		r.MaxLen = len(r.Tokens) + rapid.IntRange(1, 12).Draw(t, "max tokens")
		drawScoring(t, r)
		switch {
		case rapid.IntRange(0, 9).Draw(t, "refused") == 0, len(r.Tokens) == 0,
			(r.MaxLen-2)/s.PageSize+1 > pool:
			r.Err = errors.New("refused")
		}
		w.requests = append(w.requests, r)
	}
	w.drawOperations(t, tokens)
	return w
}

// run runs the job, and returns what came out.
func (w *work) run(ctx context.Context) ([]*schedule.Completion, schedule.Stats, error) {
	var stats schedule.Stats
	var calls atomic.Int64
	w.between, w.did = make(chan *schedule.Operation, len(w.operations)), map[string]int{}
	list, free, pool := w.list()
	cfg := &schedule.Config{Sizes: w.device.Sizes, Device: w.device, Host: w.host, Index: w.index, Contexts: list,
		FreePages: free, Pool: pool, PrefixSeed: seed, Between: w.between, Moved: w.moved, Short: short,
		NewStream: func(*schedule.Request) schedule.Stream { return letters{} }, Stats: &stats, Calls: &calls,
		Now:     time.Now,
		InOrder: w.inOrder, Debug: w.inOrder, Inspect: func(view func() schedule.View, failure error) error {
			if err := checkView(view(), w.device.Sizes, len(w.requests)); err != nil {
				panic(err)
			}
			w.offerOperations(int(calls.Load()))
			if w.called != nil {
				w.called(int(calls.Load()))
			}
			return failure
		}}
	if w.stops != nil {
		cfg.Stops = w.stops
	}
	intake, out := make(chan *schedule.Request, len(w.requests)), make(chan *schedule.Completion)
	for _, r := range w.requests {
		intake <- r
	}
	close(intake)
	w.offerOperations(0)
	failed := make(chan error, 1)
	go func() {
		defer func() {
			if broken := recover(); broken != nil { // what the device's model refuses
				failed <- fmt.Errorf("a rule is broken: %v\n%s", broken, debug.Stack())
			}
		}()
		failed <- cfg.Run(ctx, intake, out)
	}()
	var all []*schedule.Completion
	for {
		select {
		case c := <-out:
			all = append(all, c)
		case err := <-failed:
			w.endRides()
			return all, stats, err
		}
	}
}

// draw is what follows tokens in a completion, and how the sequence stands then.
func draw(tokens []int32, r *schedule.Request, generation int) (int32, schedule.Finish) {
	h := fnv.New64a()
	fmt.Fprint(h, tokens, r.Tag, generation)
	token := int32(h.Sum64() % 23)
	switch {
	case h.Sum64()%101 == 0:
		return -1, schedule.NotANumber
	case token == 0:
		return token, schedule.AtStopToken
	case len(tokens)+1 >= r.MaxLen:
		return token, schedule.AtLength
	}
	return token, schedule.Running
}

// stopsAt says that the last of tokens ends a stop string.
func stopsAt(tokens []int32, r *schedule.Request) bool {
	text := ""
	for _, token := range tokens[len(r.Tokens):] {
		text += letters{}.Push(token)
	}
	return slices.ContainsFunc(r.Stop, func(stop string) bool { return strings.HasSuffix(text, stop) })
}

// whole is the tokens of a prompt and a completion of it, whatever ends it.
func whole(r *schedule.Request, generation int) []int32 {
	tokens := slices.Clone(r.Tokens)
	for finish := schedule.Running; finish == schedule.Running; {
		var token int32
		if token, finish = draw(tokens, r, generation); token >= 0 {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// wanted is a completion as it must be, whatever else runs.
func wanted(r *schedule.Request, generation int) string {
	tokens, text := slices.Clone(r.Tokens), ""
	for {
		token, finish := draw(tokens, r, generation)
		if token >= 0 {
			tokens, text = append(tokens, token), text+letters{}.Push(token)
			at := -1
			for _, stop := range r.Stop {
				if i := strings.Index(text, stop); i >= 0 && (at < 0 || i < at) {
					at = i
				}
			}
			if at >= 0 {
				finish, text = schedule.AtStopString, text[:at]
			}
		}
		switch {
		case r.ScoresOnly:
			return show(nil, "", finish, wantedScores(r, nil))
		case finish != schedule.Running:
			drawn := tokens[len(r.Tokens):]
			if finish == schedule.AtStopToken && !r.IncludeStop {
				text = text[:len(text)-len(letters{}.Push(drawn[len(drawn)-1]))]
			}
			return show(drawn, text, finish, wantedScores(r, drawn))
		}
	}
}

func show(tokens []int32, text string, finish schedule.Finish, scores string) string {
	return fmt.Sprintf("%v %q %d %s", append([]int32{}, tokens...), text, finish, scores)
}

// check compares what came out with what must: each completion once, as if it ran alone.
func (w *work) check(t *rapid.T, all []*schedule.Completion) {
	want := map[string]string{}
	for _, r := range w.requests {
		if r.Err != nil {
			want[fmt.Sprint(r.Tag)] = "refused"
			continue
		}
		for k := range r.N {
			want[fmt.Sprint(r.Tag, "/", r.First+k)] = wanted(r, r.First+k)
		}
	}
	for _, c := range all {
		name, got := fmt.Sprint(c.Request.Tag, "/", c.Generation), show(c.Tokens, c.Text, c.Finish, scoresOf(c))
		if c.Refused {
			name, got = fmt.Sprint(c.Request.Tag), "refused"
		}
		expected, ok := want[name]
		delete(want, name)
		switch {
		case !ok:
			t.Fatalf("completion %s came twice, or nobody asked for it", name)
		case got != expected:
			t.Fatalf("completion %s is %s, want %s", name, got, expected)
		}
	}
	if len(want) > 0 {
		t.Fatalf("these never came: %v", want)
	}
}

// namesAreTrue compares the contents of pages that have names with what the names say: of prompts, and of what was
// drawn behind them.
func (w *work) namesAreTrue(t *rapid.T) {
	if w.index == nil {
		return
	}
	for _, c := range w.contexts {
		w.chainIsTrue(t, c.tokens)
	}
	for _, r := range w.requests {
		if r.Err != nil {
			continue
		}
		for k := range r.N {
			w.chainIsTrue(t, whole(r, r.First+k))
		}
	}
}

// chainIsTrue compares the pages that tokens have on the device.
func (w *work) chainIsTrue(t *rapid.T, tokens []int32) {
	chain := prefix.Chain(seed, tokens, w.device.PageSize)
	for place, page := range w.index.Longest(chain) {
		want := tokens[place*w.device.PageSize : (place+1)*w.device.PageSize]
		if got := w.device.Page(page); !slices.Equal(got, want) {
			t.Fatalf("page %d has %v, and the name of %v", page, got, want)
		}
	}
}

// Whatever the sizes, the requests, the contexts that hold pages and the host cache: each completion comes once, and is
// what it would be alone; no page is lost, no row is used twice, contexts stay as they are. The device's model panics
// where a row is used twice, a shared page is written to, or pages run out.
func TestRandomJobs(t *testing.T) {
	var sum schedule.Stats
	did := map[string]int{}
	check := func(t *rapid.T) {
		w := drawWork(t)
		for range 2 { // the second job meets the host cache as the first left it
			all, stats, err := w.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			sum = sum.Then(stats)
			for kind, n := range w.did {
				did[kind] += n
			}
			w.check(t, all)
			if w.stops != nil && len(w.stops.held) > 0 {
				t.Fatalf("the stops of %d requests are held when the run is over", len(w.stops.held))
			}
			onDevice := !slices.ContainsFunc(w.requests, func(r *schedule.Request) bool {
				return len(r.Stop) > 0 && !r.OnDevice
			})
			if onDevice && stats.DrawnTokens-stats.GeneratedTokens != withoutToken(all) {
				t.Fatalf("%d tokens drawn for %d that are kept", stats.DrawnTokens, stats.GeneratedTokens)
			}
			w.contextsAreWhole(t)
			w.namesAreTrue(t)
			for _, r := range w.requests {
				if errors.Is(r.Err, errShort) {
					r.Err = nil
				}
			}
		}
	}
	rounds := 200
	if testing.Short() {
		rounds = 100 // of a fifth as many jobs each
	}
	for range rounds {
		rapid.Check(t, check)
	}
	t.Logf("%d requests, %d calls, %d tokens taken over, %d sequences swapped out, %d bytes moved, operations %v",
		sum.Requests, sum.Calls, sum.HitTokens, sum.Preemptions, sum.MovedBytes, did)
	if slices.ContainsFunc(kinds, func(kind string) bool { return did[kind] == 0 }) ||
		sum.Preemptions == 0 || sum.HitTokens == 0 || sum.MovedBytes == 0 {
		t.Error("no job came to what this is about")
	}
}

// withoutToken counts the completions that ended where there was none, or none was wanted.
func withoutToken(all []*schedule.Completion) (n int) {
	for _, c := range all {
		if c.Finish == schedule.NotANumber || c.Request.ScoresOnly && !c.Refused {
			n++
		}
	}
	return n
}

// A device that finds stop strings elsewhere than the text has them ends the run: one that it misses, where the drain
// looks too, and one that is not there, always.
func TestDeviceMissesAStopString(t *testing.T) {
	for name, finds := range map[string]bool{"misses": false, "invents": true} {
		t.Run(name, func(t *testing.T) {
			w := &work{device: model.New(schedule.Sizes{Slots: 1, MaxSeqs: 1, PageSize: 4, PrefixRows: 1, MaxRounds: 4,
				Pages: 16, PromptLimit: 64, Paged: true, BlockPages: 2, Staged: 1}, 8), inOrder: !finds}
			w.device.Draw = func(s model.Sequence) (int32, schedule.Finish) {
				if finds {
					return 2, schedule.AtStopString
				}
				return 1, schedule.Running
			}
			w.requests = []*schedule.Request{{Tokens: []int32{1}, N: 1, MaxLen: 30, Stop: []string{"bbb"},
				OnDevice: true, Context: schedule.None}}
			if _, _, err := w.run(t.Context()); !errors.Is(err, schedule.ErrStops) {
				t.Error(err)
			}
		})
	}
}

// A device that fails ends the run with its error, and what came out before is whole.
func TestDeviceErrors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWork(t)
		switch rapid.IntRange(0, 2).Draw(t, "what fails") {
		case 0:
			w.device.FailRun = rapid.IntRange(1, 5).Draw(t, "call")
		case 1:
			w.device.FailSave = true
		case 2:
			w.device.FailLoad = true
		}
		all, _, err := w.run(t.Context())
		failed := w.device.Calls >= w.device.FailRun && w.device.FailRun > 0 ||
			w.device.FailSave && w.device.Saves > 0 || w.device.FailLoad && w.device.Loads > 0
		if failed != errors.Is(err, model.ErrFailed) {
			t.Fatalf("the device failed: %v, and the run says %v", failed, err)
		}
		seen := map[string]bool{}
		for _, c := range all {
			name := fmt.Sprint(c.Request.Tag, "/", c.Generation)
			if c.Refused {
				continue
			}
			got, want := show(c.Tokens, c.Text, c.Finish, scoresOf(c)), wanted(c.Request, c.Generation)
			if got != want || seen[name] {
				t.Fatalf("completion %s is %s, want %s once", name, got, want)
			}
			seen[name] = true
		}
	})
}

// A run that is cancelled at any call ends with that error. It leaves rows and pages free and contexts as they are, and
// names that are true; what it ran serves the next run.
func TestCancelled(t *testing.T) {
	hits := 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWork(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		after := rapid.IntRange(0, 8).Draw(t, "calls before")
		if w.called = func(calls int) {
			if calls == after {
				cancel()
			}
		}; after == 0 {
			cancel()
		}
		_, first, err := w.run(ctx)
		switch { // the last call of a run that is done only frees rows
		case err == nil && first.Calls <= after, err == context.Canceled && first.Calls >= after:
		default:
			t.Fatalf("%v after %d calls, cancelled at call %d", err, first.Calls, after)
		}
		w.contextsAreWhole(t)
		w.namesAreTrue(t)
		if w.called = nil; w.stops != nil {
			clear(w.stops.held) // each run has a room of its own
		}
		all, _, err := w.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.check(t, all)
		w.contextsAreWhole(t)
		if w.index != nil {
			hits += w.index.Len()
		}
	})
	if hits == 0 {
		t.Error("no page has a name")
	}
}
