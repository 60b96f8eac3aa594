package xla

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla/internal/topologies"
)

// compileOne compiles a small program.
func compileOne(b *Backend) error {
	g := NewGraph(b, "one")
	return g.Compile(AddScalar(Parameter(g, "x", shapes.Make(dtypes.Float32, 4)), 1))
}

// The compiler of a client and the compiler of a topology get the options. One that they do not know is an error with
// its name, and not a program without it.
func TestUnknownOption(t *testing.T) {
	backends := map[string]*Backend{}
	plugin, err := setup.FindPlugin("cpu")
	if err != nil {
		t.Fatal(err)
	}
	if backends["cpu"], err = New(Options{Plugin: plugin}); err != nil {
		t.Fatal(err)
	}
	if plugin, err = setup.FindPlugin("tpu"); err == nil {
		if backends["tpu"], err = OpenTopology(TopologyOptions{Plugin: plugin, Name: "v6e:1x1"}); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range backends {
		t.Run(name, func(t *testing.T) {
			defer b.Finalize()
			if err := compileOne(b); err != nil {
				t.Fatal(err)
			}
			b.options = []topologies.Option{{Name: "xla_no_such_option", Value: "true"}}
			if err := compileOne(b); err == nil || strings.Contains(err.Error(), "\n") ||
				!strings.Contains(err.Error(), "does not take the option xla_no_such_option=true") {
				t.Errorf("an unknown option gives %v", err)
			}
		})
	}
}

// Options are part of the key of TPU programs, and a flag of the user's takes the place of the option.
func TestOptionsOfTPUPrograms(t *testing.T) {
	plugin, err := setup.FindPlugin("tpu")
	if err != nil {
		t.Skip(`libtpu is not installed ("sample setup tpu" fetches it)`)
	}
	b, err := OpenTopology(TopologyOptions{Plugin: plugin, Name: "v6e:1x1"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	if len(b.options) == 0 {
		t.Fatal("programs for TPUs have no options")
	}
	key := func(options []topologies.Option) []byte {
		b.options = options
		var key bytes.Buffer
		writeTPUKey(&key, &b.devices)
		return key.Bytes()
	}
	if with := key(b.options); bytes.Equal(with, key(nil)) {
		t.Errorf("the key does not depend on options: %q", with)
	}
	const kind = "TPU v6 lite"
	all := topologies.Options("tpu", kind, os.Getenv(libtpuFlags))
	for _, o := range all {
		if left := topologies.Options("tpu", kind, "--"+o.Name+"=1"); len(left) != len(all)-1 {
			t.Errorf("with a flag of the user's the options are %v", left)
		}
	}
	for platform, kind := range map[string]string{"tpu": "TPU v5 lite", "cuda": "NVIDIA H200"} {
		if other := topologies.Options(platform, kind, ""); len(other) != 0 {
			t.Errorf("programs for %s have options %v", kind, other)
		}
	}
}
