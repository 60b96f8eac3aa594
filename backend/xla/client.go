package xla

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/internal/plural"
)

// DefaultClientTimeout is how long [New] and [OpenTopology] wait for a plugin by default.
const DefaultClientTimeout = 2 * time.Minute

// firstWait is how long they wait before they say what they wait for. They say so again after twice as long, and so on.
var firstWait = 5 * time.Second

// ErrClientTimeout is wrapped by their errors where the plugin takes longer than [Options.ClientTimeout].
var ErrClientTimeout = errors.New("the time limit has passed")

// patience says how long a plugin may take, and who hears what it does meanwhile.
type patience struct {
	plugin  string
	limit   time.Duration // 0 is DefaultClientTimeout
	waiting func(waited time.Duration, what string)
	likely  string // what the plugin may wait for
}

// opening is what calls of a plugin are making. These can't be ended: an opening that nobody waits for any more is left
// behind.
type opening[T any] struct {
	patience
	stage atomic.Pointer[string]
	made  T
	err   error
	done  chan struct{} // closed when the two above are set
}

// leftBehind are the openings that nobody waits for, by what they make. Who opens the same again goes on waiting for
// them: a second client beside them would wait for the same, or for what the first one holds.
var leftBehind = struct {
	sync.Mutex
	openings map[string]any
}{openings: map[string]any{}}

// open makes the calls of a plugin that may block, and returns early when ctx ends or the time is over. The key says
// what they make; calls says which of them is under way.
func open[T any](ctx context.Context, p patience, key string, calls func(enter func(stage string)) (T, error)) (T,
	error) {
	leftBehind.Lock()
	w, _ := leftBehind.openings[key].(*opening[T])
	delete(leftBehind.openings, key)
	leftBehind.Unlock()
	if w == nil {
		w = &opening[T]{done: make(chan struct{})}
		enter := func(stage string) { w.stage.Store(&stage) }
		enter("being loaded")
		go func() {
			defer close(w.done)
			w.made, w.err = calls(enter)
		}()
	}
	w.patience = p
	if err := w.wait(ctx); err != nil {
		leftBehind.Lock()
		defer leftBehind.Unlock()
		leftBehind.openings[key] = w
		var none T
		return none, err
	}
	return w.made, w.err
}

// loadPlugin loads a plugin whose API is new enough.
func loadPlugin(path string) (*pjrt.Plugin, error) {
	if err := pjrtc.CheckVersion(path); err != nil {
		return nil, fmt.Errorf("xla: %w", err)
	}
	plugin, err := pjrt.GetPlugin(path)
	if err != nil {
		return nil, fmt.Errorf("xla: loading the PJRT plugin %s: %w", path, err)
	}
	return plugin, nil
}

// openClient loads the plugin and makes a client.
func (o Options) openClient(ctx context.Context) (plugin *pjrt.Plugin, client *pjrt.Client, err error) {
	type made struct {
		plugin *pjrt.Plugin
		client *pjrt.Client
	}
	p := patience{plugin: o.Plugin, limit: o.ClientTimeout, waiting: o.Waiting, likely: o.likely()}
	m, err := open(ctx, p, fmt.Sprintln("client", o.Plugin, o.Platform, o.ClientOptions),
		func(enter func(stage string)) (m made, err error) {
			if m.plugin, err = loadPlugin(o.Plugin); err != nil {
				return m, err
			}
			enter("opening its devices")
			if m.client, err = newClient(m.plugin, o); err != nil {
				err = fmt.Errorf("xla: starting a client of %s with options %v: %w", o.Plugin, o.ClientOptions, err)
			}
			return m, err
		})
	return m.plugin, m.client, err
}

// wait waits for what is being made. Its error says why it waits no longer.
func (w *opening[T]) wait(ctx context.Context) error {
	limit := w.limit
	if limit == 0 {
		limit = DefaultClientTimeout
	}
	begun, pause := time.Now(), firstWait
	late := time.NewTimer(limit)
	defer late.Stop()
	say := time.NewTimer(pause)
	defer say.Stop()
	for {
		select {
		case <-w.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("xla: told to end while %s: %w", w.what(), ctx.Err())
		case <-late.C:
			return fmt.Errorf("xla: %w (%s) while %s; %s", ErrClientTimeout, limit, w.what(), w.likely)
		case <-say.C:
			if w.waiting != nil {
				w.waiting(time.Since(begun).Round(firstWait/10), w.what()+"; "+w.likely)
			}
			pause *= 2
			say.Reset(pause)
		}
	}
}

// what is being waited for.
func (w *opening[T]) what() string {
	return fmt.Sprintf("the plugin %s is %s", w.plugin, *w.stage.Load())
}

// likely says what a plugin of the platform may wait for.
func (o *Options) likely() string {
	switch {
	case o.Platform == "tpu" || o.Platform == "" && strings.Contains(o.Plugin, "tpu"):
		return likelyOfTPU(os.Getenv)
	case o.Platform == "cuda":
		return "it may wait for the driver, or for a GPU that another process resets"
	}
	return "it may wait for its devices or for a server"
}

const metadataServer = "Google Cloud's metadata server (TPU_SKIP_MDS_QUERY=1 does without it)"

// likelyOfTPU is what libtpu waits for: its own timeouts are of many minutes.
func likelyOfTPU(getenv func(string) string) string {
	var waits []string
	hosts := strings.FieldsFunc(getenv("TPU_WORKER_HOSTNAMES"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(hosts) > 1 {
		waits = append(waits, fmt.Sprintf("the processes on the other hosts of its slice (TPU_WORKER_HOSTNAMES has %s)",
			plural.Count(len(hosts), "host")))
	}
	if getenv("TPU_SKIP_MDS_QUERY") == "" {
		waits = append(waits, metadataServer)
	}
	waits = append(waits, "a process that has the chips")
	return "it may wait for " + strings.Join(waits, ", or ")
}

// newClient makes a client with the options given and, on GPUs, ours, which a plugin of the user's own may not know.
func newClient(plugin *pjrt.Plugin, o Options) (*pjrt.Client, error) {
	named, err := clientOptions(o.ClientOptions)
	if err != nil {
		return nil, err
	}
	if o.Platform == "cuda" {
		more, err := clientOptions(gpuClient)
		if err != nil {
			return nil, err
		}
		maps.Copy(more, named)
		client, err := plugin.NewClient(more)
		if err == nil || !strings.Contains(err.Error(), "Unexpected option") {
			return client, err
		}
	}
	return plugin.NewClient(named)
}
