package xla_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/fakeplugin"
)

// All copies to the host are started before the first is awaited, and an error of one keeps none of the others.
func TestCopiesToTheHostStartTogether(t *testing.T) {
	for _, failing := range []string{"", "Buffer_ToHostBuffer@2: error 13 broken link",
		"Event_Await@5+: error 13 broken link"} {
		log := filepath.Join(t.TempDir(), "log")
		b, err := xla.New(xla.Options{Plugin: fakeplugin.New(t, failing, "log="+log)})
		if err != nil {
			t.Fatal(err)
		}
		var buffers []compute.Buffer
		var flats []any
		for i := range 3 {
			values := slices.Repeat([]int32{int32(i + 7)}, 4)
			buffer, err := b.BufferFromFlatData(0, values, shapes.Make(dtypes.Int32, 2, 2))
			if err != nil {
				t.Fatal(err)
			}
			buffers, flats = append(buffers, buffer), append(flats, make([]int32, 4))
		}
		if err := os.Truncate(log, 0); err != nil {
			t.Fatal(err)
		}
		err = b.Download(buffers, flats)
		if (err == nil) != (failing == "") || err != nil && !strings.Contains(err.Error(), "broken link") {
			t.Errorf("%q: %v", failing, err)
		}
		calls, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if failing == "" {
			const copied, awaited, freed = "PJRT_Buffer_ToHostBuffer", "PJRT_Event_Await", "PJRT_Event_Destroy"
			want := []string{copied, copied, copied, awaited, freed, awaited, freed, awaited, freed}
			if got := strings.Fields(string(calls)); !slices.Equal(got, want) {
				t.Errorf("the calls are %q", got)
			}
			for i, flat := range flats {
				if got := flat.([]int32); !slices.Equal(got, slices.Repeat([]int32{int32(i + 7)}, 4)) {
					t.Errorf("array %d is %v", i, got)
				}
			}
		} else if s := string(calls); strings.Count(s, "Event_Await") != strings.Count(s, "Event_Destroy") {
			t.Errorf("%q: an event was not freed:\n%s", failing, s)
		}
		b.Finalize()
	}
}

// BenchmarkExecute measures a call by its number of inputs, all but one of them weights that stay.
func BenchmarkExecute(b *testing.B) {
	for _, inputs := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint("inputs=", inputs), func(b *testing.B) {
			backend, err := xla.New(xla.Options{Plugin: fakeplugin.New(b, "outputs=1")})
			if err != nil {
				b.Fatal(err)
			}
			defer backend.Finalize()
			builder := backend.Builder("sum")
			main := builder.Main()
			shape := shapes.Make(dtypes.Int32)
			var args []compute.Buffer
			var first compute.Value
			for i := range inputs {
				x, err := main.Parameter(fmt.Sprint("x", i), shape, nil)
				if err != nil {
					b.Fatal(err)
				}
				if i == 0 {
					first = x
				}
				buffer, err := backend.BufferFromFlatData(0, []int32{1}, shape)
				if err != nil {
					b.Fatal(err)
				}
				args = append(args, buffer)
			}
			if err := main.Return([]compute.Value{first}, nil); err != nil {
				b.Fatal(err)
			}
			e, err := builder.Compile()
			if err != nil {
				b.Fatal(err)
			}
			donate := make([]bool, inputs)
			donate[0] = true
			for b.Loop() {
				out, err := e.Execute(args, donate, 0)
				if err != nil {
					b.Fatal(err)
				}
				args[0] = out[0]
			}
		})
	}
}
