package xla_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/fakeplugin"
)

// A plugin that takes too long is left behind with an error that says what it may wait for, and was said before.
func TestClientTimeout(t *testing.T) {
	xla.SetFirstWait(t, 20*time.Millisecond)
	t.Setenv("TPU_WORKER_HOSTNAMES", "a,b,c,d")
	t.Setenv("TPU_SKIP_MDS_QUERY", "")
	plugin := fakeplugin.New(t, "platform=tpu", "Client_Create: hang")
	var mu sync.Mutex
	var said []string
	_, err := xla.New(xla.Options{Plugin: plugin, Platform: "tpu", ClientTimeout: 300 * time.Millisecond,
		Waiting: func(_ time.Duration, what string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, what)
		}})
	wants := []string{plugin, "is opening its devices", "other hosts of its slice (TPU_WORKER_HOSTNAMES has 4 hosts)",
		"metadata server (TPU_SKIP_MDS_QUERY=1"}
	if !errors.Is(err, xla.ErrClientTimeout) {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(said) < 2 || len(said) > 5 {
		t.Errorf("it said %d times what it waits for", len(said))
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) || len(said) > 0 && !strings.Contains(said[0], want) {
			t.Errorf("%v or %q does not say %q", err, said, want)
		}
	}
}

// The compiler of a topology has the same time. One that is set to ask a metadata server may wait for it.
func TestTopologyTimeout(t *testing.T) {
	xla.SetFirstWait(t, 20*time.Millisecond)
	for _, c := range [][3]string{
		{"TopologyDescription_Create: hang", "1", "is describing topology v5e:4x4; it may wait for a server"},
		// while a plugin is being loaded, no other is
		{"Plugin_Initialize: sleep 1", "0", "is being loaded; it may wait for Google Cloud's metadata server"},
	} {
		t.Setenv("TPU_SKIP_MDS_QUERY", c[1])
		said := make(chan string, 99)
		o := xla.TopologyOptions{Name: "v5e:4x4", ClientTimeout: 300 * time.Millisecond,
			Plugin:  fakeplugin.New(t, "platform=tpu", "topology=v5e:4x4", c[0]),
			Waiting: func(_ time.Duration, what string) { said <- what }}
		_, err := xla.OpenTopology(o)
		if !errors.Is(err, xla.ErrClientTimeout) || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%v does not say %q", err, c[2])
		}
		if len(said) == 0 || !strings.Contains(<-said, c[2]) {
			t.Errorf("%s: it was not said before", c[0])
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := xla.OpenTopologyContext(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", c[0], err)
		}
	}
}

// A context ends the waiting at once; the next client goes on waiting for the same call, and makes no second one.
func TestClientInterrupted(t *testing.T) {
	for _, call := range []string{"Plugin_Initialize", "Client_Create"} {
		log := filepath.Join(t.TempDir(), "log")
		o := xla.Options{Plugin: fakeplugin.New(t, call+"@1: sleep 0.5", "log="+log)}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for text := []byte{}; !strings.Contains(string(text), "PJRT_"+call+"\n"); text, _ = os.ReadFile(log) {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		if _, err := xla.NewContext(ctx, o); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: %v", call, err)
		}
		b, err := xla.New(o)
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		b.Finalize()
		if text, _ := os.ReadFile(log); strings.Count(string(text), "PJRT_Client_Create\n") != 1 {
			t.Errorf("%s: the clients were not one:\n%s", call, text)
		}
	}
}

// Each status code with which a client fails comes with its text.
func TestClientFails(t *testing.T) {
	for code := 1; code <= 16; code++ {
		plugin := fakeplugin.New(t, fmt.Sprintf("Client_Create: error %d no chips, code %d", code, code))
		_, err := xla.New(xla.Options{Plugin: plugin})
		if want := fmt.Sprintf("(code=%d): no chips, code %d", code, code); err == nil ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), plugin) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	for call, want := range map[string]string{
		"Plugin_Initialize":         "loading the PJRT plugin",
		"Client_AddressableDevices": "failed to retrieve addressable devices",
	} {
		_, err := xla.New(xla.Options{Plugin: fakeplugin.New(t, call+": error 14 the driver is gone")})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the driver is gone") {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// Plugins whose API is another or too short are refused before they are called.
func TestClientVersions(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for script, want := range map[string]string{
		"api=1.3":                  "version 1.3 of the PJRT API, and Quire knows 0.x",
		"api=0.40;functions=60":    "version 0.40 of the PJRT API, which lacks PJRT_Buffer_ToHostBuffer",
		"api=0.9;functions=3":      "which lacks PJRT_Plugin_Initialize",
		"api=0.900;functions=97":   "",
		"platform=tpu;api=0.10000": "",
	} {
		b, err := xla.New(xla.Options{Plugin: fakeplugin.New(t, script, "log="+log)})
		if err == nil {
			b.Finalize()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", script, err, want)
		}
		if text, _ := os.ReadFile(log); want != "" && strings.Contains(string(text), "PJRT_") {
			t.Errorf("%s: it was called: %s", script, text)
		}
		_ = os.Remove(log)
	}
}

// A device that vanishes fails each call with the plugin's words.
func TestDeviceVanishes(t *testing.T) {
	shape := shapes.Make(dtypes.Int32, 2)
	for call, fails := range map[string]int{
		"LoadedExecutable_Execute@3+: error 14 device lost": 3,
		"LoadedExecutable_Execute@2: error 13 device lost":  2,
		"Buffer_ToHostBuffer@4+: error 13 device lost":      4,
		"Client_BufferFromHostBuffer@1: error 8 no room":    0,
		"Client_Compile: error 8 no room":                   0,
	} {
		b, err := xla.New(xla.Options{Plugin: fakeplugin.New(t, call)})
		if err != nil {
			t.Fatal(err)
		}
		err = func() error {
			builder := b.Builder("copy")
			x, err := builder.Main().Parameter("x", shape, nil)
			if err == nil {
				err = builder.Main().Return([]compute.Value{x}, nil)
			}
			if err != nil {
				return err
			}
			e, err := builder.Compile()
			if err != nil {
				return err
			}
			for round := 1; round <= 5; round++ {
				in, err := b.BufferFromFlatData(0, []int32{1, int32(round)}, shape)
				if err != nil {
					return err
				}
				out, err := e.Execute([]compute.Buffer{in}, nil, 0)
				got := make([]int32, 2)
				if err == nil {
					err = out[0].ToFlatData(got)
				}
				if (err != nil) != (round == fails) {
					t.Errorf("%s: round %d: %v", call, round, err)
				}
				if err != nil {
					return err
				}
				if !slices.Equal(got, []int32{1, int32(round)}) {
					t.Errorf("%s: round %d copied %v", call, round, got)
				}
			}
			return nil
		}()
		_, want, _ := strings.Cut(call, "error ")
		if _, want, _ = strings.Cut(want, " "); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", call, err)
		}
		b.Finalize()
	}
}

// A topology is the one that the plugin knows, with its devices and their memory.
func TestFakeTopology(t *testing.T) {
	for name, want := range map[string]error{"v5e:4x4": nil, "v5e:9x9": xla.ErrUnknownTopology} {
		b, err := xla.OpenTopology(xla.TopologyOptions{Name: name, Plugin: fakeplugin.New(t, "platform=tpu",
			"kind=TPU v5 lite", "topology=v5e:4x4", "devices=16", "processes=4", "memory=16000000000")})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if got, _ := b.Topology(); got != (xla.Topology{Name: name, DeviceKind: "TPU v5 lite", NumDevices: 16,
			MemoryBytes: 16e9}) {
			t.Errorf("%+v", got)
		}
		b.Finalize()
	}
	for code, call := range map[string]string{"13": "TopologyDescription_Create", "14": "Plugin_Initialize"} {
		plugin := fakeplugin.New(t, "topology=v5e:1x1", call+": error "+code+" no compiler")
		if _, err := xla.OpenTopology(xla.TopologyOptions{Name: "v5e:1x1", Plugin: plugin}); err == nil ||
			errors.Is(err, xla.ErrUnknownTopology) || !strings.Contains(err.Error(), "no compiler") {
			t.Errorf("%s: %v", call, err)
		}
	}
}
