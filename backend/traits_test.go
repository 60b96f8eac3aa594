package backend_test

import (
	"testing"

	"github.com/quire/quire/backend"
)

// A backend is known by its name before its plugin is loaded: also libtpu by its path.
func TestNamed(t *testing.T) {
	for name, want := range map[string]backend.Traits{
		backend.XLACPU: backend.For(backend.CPU), backend.XLATPU: backend.For(backend.TPU),
		"xla:/usr/lib/libtpu.so": backend.For(backend.TPU), "xla:/plugins/other.so": backend.For("/plugins/other.so"),
		backend.Go: {}, "": {},
	} {
		if got := backend.Named(name); got != want {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
	if other := backend.Named("xla:/plugins/other.so"); other.IsHost || !other.WritesBlocks || other.Lanes != 0 {
		t.Errorf("an unknown plugin is %+v, want an accelerator", other)
	}
}

type open struct{ traits backend.Traits }

func (o open) Traits() backend.Traits { return o.traits }

func TestOf(t *testing.T) {
	want := backend.For(backend.CUDA)
	if got := backend.Of(open{want}); got != want {
		t.Errorf("an open backend is %+v, want %+v", got, want)
	}
	if got := backend.Of(struct{}{}); got != (backend.Traits{}) {
		t.Errorf("another one is %+v", got)
	}
}
