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

// DefaultClientTimeout is how long [New] waits for a plugin by default.
const DefaultClientTimeout = 2 * time.Minute

// firstWait is how long New waits before it says what it waits for. It says so again after twice as long, and so on.
var firstWait = 5 * time.Second

// ErrClientTimeout is wrapped by New's error where the plugin takes longer than [Options.ClientTimeout].
var ErrClientTimeout = errors.New("the time limit has passed")

// opening is a client that is being made. The plugin's calls can't be ended: an opening that nobody waits for any more
// is left behind.
type opening struct {
	o      Options
	stage  atomic.Pointer[string]
	plugin *pjrt.Plugin
	client *pjrt.Client
	err    error
	done   chan struct{} // closed when the three above are set
}

// leftBehind are the openings that nobody waits for, by plugin and options. Who opens the same again goes on waiting
// for them: a second client beside them would wait for the same, or for what the first one holds.
var leftBehind = struct {
	sync.Mutex
	openings map[string]*opening
}{openings: map[string]*opening{}}

// open loads the plugin and makes a client, and returns early when ctx ends or the time is over.
func (o Options) open(ctx context.Context) (*pjrt.Plugin, *pjrt.Client, error) {
	key := fmt.Sprintln(o.Plugin, o.Platform, o.ClientOptions)
	leftBehind.Lock()
	w := leftBehind.openings[key]
	delete(leftBehind.openings, key)
	leftBehind.Unlock()
	if w == nil {
		w = &opening{o: o, done: make(chan struct{})}
		w.enter("being loaded")
		go w.run()
	}
	if err := w.wait(ctx, o); err != nil {
		leftBehind.Lock()
		defer leftBehind.Unlock()
		leftBehind.openings[key] = w
		return nil, nil, err
	}
	return w.plugin, w.client, w.err
}

func (w *opening) enter(stage string) { w.stage.Store(&stage) }

// run makes the calls that may block.
func (w *opening) run() {
	defer close(w.done)
	if w.err = pjrtc.CheckVersion(w.o.Plugin); w.err != nil {
		w.err = fmt.Errorf("xla: %w", w.err)
		return
	}
	var err error
	if w.plugin, err = pjrt.GetPlugin(w.o.Plugin); err != nil {
		w.err = fmt.Errorf("xla: loading the PJRT plugin %s: %w", w.o.Plugin, err)
		return
	}
	w.enter("opening its devices")
	if w.client, err = newClient(w.plugin, w.o); err != nil {
		w.err = fmt.Errorf("xla: starting a client of %s with options %v: %w", w.o.Plugin, w.o.ClientOptions, err)
	}
}

// wait waits for run. Its error says why it waits no longer.
func (w *opening) wait(ctx context.Context, o Options) error {
	limit := o.ClientTimeout
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
			return fmt.Errorf("xla: %w (%s) while %s; %s", ErrClientTimeout, limit, w.what(), o.likely())
		case <-say.C:
			if o.Waiting != nil {
				o.Waiting(time.Since(begun).Round(firstWait/10), w.what()+"; "+o.likely())
			}
			pause *= 2
			say.Reset(pause)
		}
	}
}

// what is being waited for.
func (w *opening) what() string {
	return fmt.Sprintf("the plugin %s is %s", w.o.Plugin, *w.stage.Load())
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

// likelyOfTPU is what libtpu waits for: its own timeouts are of many minutes.
func likelyOfTPU(getenv func(string) string) string {
	var waits []string
	hosts := strings.FieldsFunc(getenv("TPU_WORKER_HOSTNAMES"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(hosts) > 1 {
		waits = append(waits, fmt.Sprintf("the processes on the other hosts of its slice (TPU_WORKER_HOSTNAMES has %s)",
			plural.Count(len(hosts), "host")))
	}
	if getenv("TPU_SKIP_MDS_QUERY") == "" {
		waits = append(waits, "Google Cloud's metadata server (TPU_SKIP_MDS_QUERY=1 does without it)")
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
