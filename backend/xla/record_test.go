package xla_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/xla"
)

// A program that was compiled for a topology is not compiled again, and says of itself what it said then. One that is
// to be kept for devices is compiled where it is not there; so is one for others, or whose record is damaged.
func TestRecordsOfPrograms(t *testing.T) {
	records, programs := t.TempDir(), t.TempDir()
	type said struct {
		memory xla.Memory
		cost   xla.Cost
		hlo    string
	}
	compiled := func(topology, cache string, recorded bool) said {
		t.Helper()
		b := openTopology(t, xla.TopologyOptions{Name: topology, RecordDir: records, CacheDir: cache})
		view := b.Donating(map[string]int{"cache": 0}).(*xla.View)
		cacheProgram(t, view)
		e := view.Executables()[0]
		if e.FromCache != recorded || (b.CacheLoads() == 1) != recorded || (b.Compiles() == 0) != recorded {
			t.Errorf("%s, kept in %q: recorded %t, %d compiled; want recorded %t", topology, cache, e.FromCache,
				b.Compiles(), recorded)
		}
		var s said
		var errs [3]error
		s.memory, errs[0] = e.Memory()
		s.cost, errs[1] = e.Cost()
		s.hlo, errs[2] = e.OptimizedHLO()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Execute(nil, nil, 0); !errors.Is(err, xla.ErrNoDevice) {
			t.Errorf("executing gives %v", err)
		}
		e.Finalize()
		if _, err := e.Memory(); err == nil {
			t.Error("a finalized program has a memory")
		}
		return s
	}
	first := compiled("v5e:1x1", "", false)
	if again := compiled("v5e:1x1", "", true); !reflect.DeepEqual(again, first) {
		t.Errorf("recorded %+v, want %+v", again, first)
	}
	compiled("v6e:1x1", "", false)
	compiled("v5e:1x1", programs, false)
	compiled("v5e:1x1", programs, true)
	files, err := filepath.Glob(filepath.Join(records, "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("the records are %q (%v)", files, err)
	}
	tooLarge := func() string {
		t.Helper()
		b := openTopology(t, xla.TopologyOptions{Name: "v5e:1x1", RecordDir: records, CacheDir: programs})
		g := NewGraph(b, "too large")
		err := g.Compile(AddScalar(Parameter(g, "x", shapes.Make(dtypes.BFloat16, 4<<10, 1<<20)), 1))
		var oom *xla.OutOfMemoryError
		if !errors.As(err, &oom) || oom.Program != "too large" || oom.Needed != 16<<30 {
			t.Fatalf("a program that does not fit gives %v", err)
		}
		return fmt.Sprint(b.CacheLoads(), err)
	}
	if first, again := tooLarge(), tooLarge(); first[0] != '0' || again != "1"+first[1:] {
		t.Errorf("a program that does not fit gives\n%s\nand then\n%s", first, again)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text[len(text)/2] ^= 1
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if again := compiled("v5e:1x1", "", false); !reflect.DeepEqual(again, first) {
		t.Errorf("compiled again %+v, want %+v", again, first)
	}
}
