package encode_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/encode"
	"github.com/quire/quire/internal/testenv"
)

// Devices that run an encoder together give the hidden states of transformers: of each family, and with numbers of
// heads that the number of devices does not divide.
func TestDevicesTogetherEqualTransformers(t *testing.T) {
	for name, poolings := range names {
		if testing.Short() && name != "mpnet" && name != "modernbert" {
			continue
		}
		for kernels, devices := range map[string][]int{xla.KernelsAuto: {0, 1}, xla.KernelsOff: {0, 1, 2}} {
			t.Run(name+"/"+strconv.Itoa(len(devices)), func(t *testing.T) {
				model, goldens := open(t, name), readGoldens(t, name)
				cfg := wide(model)
				cfg.Backend, cfg.Pooling = testenv.Group(t, kernels, devices...), poolings[0]
				e := newEncoder(t, cfg)
				if p := e.Plan(); p.Devices != len(devices) {
					t.Errorf("the plan has %d devices", p.Devices)
				}
				for i, v := range vectors(t, e, idsOf(goldens)) {
					if d := apart(v, goldens[i].of(poolings[0])); !(d < 2e-5) {
						t.Errorf("%d tokens: %g apart from transformers", len(goldens[i].IDs), d)
					}
				}
			})
		}
	}
}

// Devices together give the same bytes in any order of rows, in steps of any size, and each time.
func TestDevicesTogetherSameBytes(t *testing.T) {
	model, rows := open(t, "mpnet"), randomRows(open(t, "mpnet"), 60)
	cfg := wide(model)
	cfg.Backend = testenv.Group(t, xla.KernelsAuto, 0, 1)
	want := vectors(t, newEncoder(t, cfg), rows)
	cfg.Backend, cfg.StepTokens = testenv.Group(t, xla.KernelsAuto, 3, 2), 400
	large := newEncoder(t, cfg)
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(rows))
	mixed := make([][]int32, len(rows))
	for k, i := range order {
		mixed[k] = rows[i]
	}
	for k, v := range vectors(t, large, mixed) {
		if !slices.Equal(v, want[order[k]]) {
			t.Fatalf("row %d has another vector in another order, and larger steps, on other devices", order[k])
		}
	}
	if !slices.Equal(vectors(t, large, rows[:1])[0], want[0]) {
		t.Error("the first row has another vector alone")
	}
}

// Replicas give, together, the vectors of one encoder, byte for byte, also when a run is stopped before; each takes
// part.
func TestReplicasGiveTheSame(t *testing.T) {
	model := open(t, "mpnet")
	rows := randomRows(model, 200)
	want := vectors(t, newEncoder(t, wide(model)), rows)
	backends := []compute.Backend{testenv.Group(t, xla.KernelsAuto, 0), testenv.Group(t, xla.KernelsAuto, 1)}
	r, err := encode.NewReplicas(t.Context(), wide(model), backends)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if p := r.Plan(); p.Replicas != 2 || p.Devices != 1 {
		t.Errorf("%d replicas of %d devices", p.Replicas, p.Devices)
	}
	numbered := func(yield func(*engine.Request) bool) {
		for i, row := range rows {
			if !yield(&engine.Request{ID: strconv.Itoa(i), Tokens: row}) {
				return
			}
		}
	}
	for range r.Run(t.Context(), numbered) {
		break
	}
	for range 2 {
		n := 0
		for c, err := range r.Run(t.Context(), numbered) {
			if err != nil || c.Err != nil {
				t.Fatal(err, c.Err)
			}
			i, _ := strconv.Atoi(c.Request.ID)
			if !slices.Equal(c.Vector, want[i]) {
				t.Fatalf("row %d has another vector", i)
			}
			n++
		}
		if s := r.Stats(); n != len(rows) || s.Requests != n {
			t.Errorf("%d vectors of %d rows: %+v", n, len(rows), s)
		}
	}
	if _, err := encode.NewReplicas(t.Context(), wide(model), nil); err == nil ||
		!strings.Contains(err.Error(), "at least one") {
		t.Errorf("no replicas: %v", err)
	}
}
