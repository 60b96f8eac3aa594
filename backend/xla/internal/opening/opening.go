// Package opening makes calls of a plugin that may block for long, such as loading it or opening its devices.
package opening

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quire/quire/internal/plural"
)

// DefaultTimeout is how long [Open] waits unless its [Patience] has a limit.
const DefaultTimeout = 2 * time.Minute

// FirstWait is how long Open waits before it reports what it waits for. It reports again each time the time waited has
// doubled.
var FirstWait = 5 * time.Second

// ErrTimeout is wrapped by the error of Open if the plugin takes longer than the limit.
var ErrTimeout = errors.New("the time limit has passed")

// Patience is how long a plugin may take, and who hears of what it does meanwhile.
type Patience struct {
	Plugin  string
	Limit   time.Duration // 0 is DefaultTimeout
	Waiting func(waited time.Duration, what string)
	Likely  string // what the plugin may wait for
}

// opening is a sequence of calls of a plugin in progress. Nothing can end such calls: an opening that nobody waits for
// any more is abandoned.
type opening[T any] struct {
	Patience
	stage atomic.Pointer[string]
	made  T
	err   error
	done  chan struct{} // closed when made and err are set
}

// abandoned are the openings that nobody waits for, by what they make. A caller that opens the same again waits for
// them, because a second client would wait for the same event, or for what the first client holds.
var abandoned = struct {
	sync.Mutex
	openings map[string]any
}{openings: map[string]any{}}

// Open makes calls of a plugin that may block, and returns early when ctx ends or the limit has passed. The key is what
// the calls make. calls reports each stage that it enters.
func Open[T any](ctx context.Context, p Patience, key string, calls func(enter func(stage string)) (T, error)) (T,
	error) {
	abandoned.Lock()
	w, _ := abandoned.openings[key].(*opening[T])
	delete(abandoned.openings, key)
	abandoned.Unlock()
	if w == nil {
		w = &opening[T]{done: make(chan struct{})}
		enter := func(stage string) { w.stage.Store(&stage) }
		enter("being loaded")
		go func() {
			defer close(w.done)
			w.made, w.err = calls(enter)
		}()
	}
	w.Patience = p
	if err := w.wait(ctx); err != nil {
		abandoned.Lock()
		defer abandoned.Unlock()
		abandoned.openings[key] = w
		var none T
		return none, err
	}
	return w.made, w.err
}

// wait waits for the calls to return. Its error is why it stopped waiting.
func (w *opening[T]) wait(ctx context.Context) error {
	limit := w.Limit
	if limit == 0 {
		limit = DefaultTimeout
	}
	start, pause := time.Now(), FirstWait
	late := time.NewTimer(limit)
	defer late.Stop()
	report := time.NewTimer(pause)
	defer report.Stop()
	for {
		select {
		case <-w.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("xla: told to end while %s: %w", w.what(), ctx.Err())
		case <-late.C:
			return fmt.Errorf("xla: %w (%s) while %s; %s", ErrTimeout, limit, w.what(), w.Likely)
		case <-report.C:
			if w.Waiting != nil {
				w.Waiting(time.Since(start).Round(FirstWait/10), w.what()+"; "+w.Likely)
			}
			pause *= 2
			report.Reset(pause)
		}
	}
}

// what describes the call that has not returned.
func (w *opening[T]) what() string {
	return fmt.Sprintf("the plugin %s is %s", w.Plugin, *w.stage.Load())
}

// MetadataServer is the server that libtpu asks for the topology by default.
const MetadataServer = "Google Cloud's metadata server (TPU_SKIP_MDS_QUERY=1 does without it)"

// LikelyTPUWaits describes what libtpu may wait for. Its own timeouts are many minutes long.
func LikelyTPUWaits(getenv func(string) string) string {
	var waits []string
	hosts := strings.FieldsFunc(getenv("TPU_WORKER_HOSTNAMES"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(hosts) > 1 {
		waits = append(waits, fmt.Sprintf("the processes on the other hosts of its slice (TPU_WORKER_HOSTNAMES has %s)",
			plural.Count(len(hosts), "host")))
	}
	if getenv("TPU_SKIP_MDS_QUERY") == "" {
		waits = append(waits, MetadataServer)
	}
	waits = append(waits, "a process that has the chips")
	return "it may wait for " + strings.Join(waits, ", or ")
}
