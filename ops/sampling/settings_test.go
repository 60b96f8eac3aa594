package sampling_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/ops/sampling"
)

func TestValidate(t *testing.T) {
	for _, good := range []sampling.Settings{sampling.DefaultSettings(), {TopP: 1},
		{Temperature: 2, TopP: 1e-9, MinP: 1, TopK: math.MaxInt32}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	with := func(change func(*sampling.Settings)) sampling.Settings {
		s := sampling.DefaultSettings()
		change(&s)
		return s
	}
	for field, values := range map[string][]sampling.Settings{
		"temperature": {with(func(s *sampling.Settings) { s.Temperature = -0.1 }),
			with(func(s *sampling.Settings) { s.Temperature = math.NaN() }),
			with(func(s *sampling.Settings) { s.Temperature = math.Inf(1) }),
			with(func(s *sampling.Settings) { s.Temperature = 1e39 })},
		"top_p": {with(func(s *sampling.Settings) { s.TopP = 0 }), with(func(s *sampling.Settings) { s.TopP = 1.01 }),
			with(func(s *sampling.Settings) { s.TopP = math.NaN() })},
		"min_p": {with(func(s *sampling.Settings) { s.MinP = -0.1 }),
			with(func(s *sampling.Settings) { s.MinP = 1.01 }),
			with(func(s *sampling.Settings) { s.MinP = math.NaN() })},
		"top_k": {with(func(s *sampling.Settings) { s.TopK = -1 }),
			with(func(s *sampling.Settings) { s.TopK = math.MaxInt32 + 1 })},
	} {
		for _, bad := range values {
			err := bad.Validate()
			var rangeError *sampling.RangeError
			if !errors.As(err, &rangeError) || rangeError.Field != field ||
				!strings.HasPrefix(err.Error(), field+" is ") {
				t.Errorf("%+v: error %v, want one about %s", bad, err, field)
			}
		}
	}
}

// Each array of sampling parameters on the device belongs to a parameter, and has the dtype in the table.
func TestParamsAreOfTheTable(t *testing.T) {
	dtypes := map[string]string{"[]float32": "f32", "[]int32": "i32", "[][2]uint32": "u32[2]"}
	table := map[string]string{}
	for p := range parameter.Own() {
		table[strings.ReplaceAll(p.Name, "_", "")] = p.Device
	}
	table["key"] = table["seed"] // made of the seed, the id and the generation
	arrays := reflect.TypeFor[sampling.Rows]()
	for i := range arrays.NumField() {
		field := arrays.Field(i)
		if got := dtypes[field.Type.String()]; got == "" || got != table[strings.ToLower(field.Name)] {
			t.Errorf("%s is %q by sampling.ParamsOf, and %q by the table", field.Name, got,
				table[strings.ToLower(field.Name)])
		}
	}
}

// The numbers that outputs depend on must never change.
func TestKeysAreStable(t *testing.T) {
	if got := sampling.HashID("prompt-17"); got != fnv1a("prompt-17") {
		t.Errorf("HashID = %#x", got)
	}
	if got, want := sampling.HashID("a"), uint64(0xaf63dc4c8601ec8c); got != want {
		t.Errorf("HashID(a) = %#x, want the published FNV-1a value %#x", got, want)
	}
	seen := map[[2]uint32][3]uint64{}
	for _, seed := range []uint64{0, 1, 1 << 32} {
		for id := range uint64(20) {
			for generation := range uint32(20) {
				key := sampling.RequestKey(seed, id<<(id%2*32), generation)
				if other, ok := seen[key]; ok {
					t.Errorf("%v and %v have the same key", other, [3]uint64{seed, id, uint64(generation)})
				}
				seen[key] = [3]uint64{seed, id, uint64(generation)}
			}
		}
	}
	// From the published answer for key 0 and counter 0.
	if got, want := sampling.RequestKey(0, 0, 5), sampling.Threefry([2]uint32{0x6b200159, 0x99ba4efe},
		[2]uint32{5, 0}); got != want {
		t.Errorf("RequestKey(0, 0, 5) = %08x, want %08x", got, want)
	}
}

func fnv1a(s string) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range []byte(s) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}
