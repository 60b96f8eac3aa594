package hlo_test

import (
	"strings"
	"testing"

	"github.com/quire/quire/backend/hlo"
)

// program is the structure of an engine's program for a TPU, with a few operations of each part: a loop over the steps
// of a call, and in a step a loop for each kind, in which the layers loop.
const program = `HloModule run, alias{output 0 = parameter 0}

%rows {
  %p.0 = bf16[4096,2,128]{2,1,0} parameter(0)
  %p.1 = s32[64]{0} parameter(1)
  %p.2 = bf16[64,2,128]{2,1,0} parameter(2)
  ROOT %scatter.1 = bf16[4096,2,128]{2,1,0} scatter(%p.0, %p.1, %p.2), calls=%second
}

%numbers {
  %p.3 = s32[2048]{0} parameter(0)
  %p.4 = s32[96]{0} parameter(1)
  %p.5 = s32[96]{0} parameter(2)
  ROOT %scatter.2 = s32[2048]{0} scatter(%p.3, %p.4, %p.5), calls=%second
}

%offloaded {
  ROOT %scatter.3 = s32[2048]{0} fusion(%p.3, %p.4, %p.5), calls=%numbers, cycles=9223372036854775807
}

%sparse {
  ROOT %custom-call.1 = s32[2048]{0} custom-call(%p.3, %p.4, %p.5), calls=%offloaded, custom_call_target="other core"
}

%turned {
  %p.6 = bf16[192,2048]{1,0} parameter(0)
  ROOT %transpose.1 = bf16[2048,192]{1,0} transpose(%p.6)
}

%tile {
  %dot.1 = f32[128,768]{1,0:S(1)} fusion(%x), calls=%product, cycles=5000
}

%promptLayer {
  %dot.2 = f32[512,2048]{1,0} fusion(%x), calls=%product, cycles=900000
  %kernel.1 = bf16[512,8,128]{2,1,0} custom-call(%dot.2), custom_call_target="tpu_custom_call"
  %turned.1 = bf16[2048,192]{1,0} fusion(%w), calls=%turned, cycles=700
  %tiles = (s32[], f32[512,2048]{1,0}) while(%t), calls=%tile, calls=%more
}

%decodeLayer {
  %near = (bf16[8192,8192]{1,0:S(1)}, bf16[8192,8192]{1,0}, u32[]) copy-start(%w)
  %dot.3 = f32[64,2048]{1,0} fusion(%x), calls=%product, cycles=60000
  %scatter_fusion = bf16[4096,2,128]{2,1,0} fusion(%cache, %to, %kv), calls=%rows
  %kernel.2 = bf16[64,8,128]{2,1,0} custom-call(%dot.3), custom_call_target="tpu_custom_call"
  %all-reduce.1 = f32[64,2048]{1,0} all-reduce(%dot.3), calls=%sum
  %all-gather.1 = (f32[8]{0}, f32[64]{0}) all-gather-start(%dot.3)
}

%prompt {
  %layers.1 = (s32[], f32[512,2048]{1,0}) while(%t), calls=%promptLayer, calls=%more
}

%decode {
  %gather_fusion = bf16[64,2048]{1,0} gather(%table, %tokens)
  %layers.2 = (s32[], f32[64,2048]{1,0}) while(%t), calls=%decodeLayer, calls=%more
}

%sample {
  %logits = f32[64,128256]{1,0} fusion(%x), calls=%product, cycles=300000
  %cond.2 = s32[64]{0} conditional(%c, %a, %b), calls=%filtered, calls=%plain
}

%filtered {
  %sorted = f32[64,128256]{1,0} fusion(%x), calls=%product, cycles=800000
}

%plain {
  %drawn = s32[64]{0} fusion(%x), calls=%product, cycles=2000
}

%none {
  %zeros = s32[64]{0} broadcast(%zero), cycles=2120
}

%step {
  %tables = s32[96]{0} fusion(%t), calls=%product, cycles=2120
  %scatter_offload_async_start = ((), ()) async-start(), calls=%sparse
  %scatter_offload_async_done = s32[2048]{0} async-done(%scatter_offload_async_start)
  %small = s32[2048]{0} fusion(%t), calls=%numbers
  %copied = s32[96,128]{1,0} copy(%tables), cycles=100
  %prompts = (s32[], f32[512,2048]{1,0}) while(%t), calls=%prompt, calls=%more
  %decodes = (s32[], f32[64,2048]{1,0}) while(%t), calls=%decode, calls=%more
  %cond.1 = s32[64]{0} conditional(%c, %a, %b), calls=%sample, calls=%none
}

%admit {
  %taken = s32[96]{0} fusion(%t), calls=%product, cycles=5000000
}

%call {
  %admits = (s32[]) while(%t), calls=%admit, calls=%more
  %look = s32[] fusion(%t), calls=%product, cycles=4000
  %steps = (s32[]) while(%t), calls=%step, calls=%more
}

ENTRY %main {
  %cache = bf16[4096,2,128]{2,1,0} parameter(0)
  %copied.1 = u8[1024,1024]{0,1} copy(%w), cycles=30000
  %calls = (s32[]) while(%t), calls=%call, calls=%more
}
`

func TestSteps(t *testing.T) {
	s, ok := hlo.Read(program).Steps(10)
	if !ok {
		t.Fatal("no steps were found")
	}
	want := hlo.Steps{HasKernels: true,
		Prompt: hlo.Layers{Once: hlo.Work{Cycles: 10 * 900_700}, Loops: hlo.Work{Cycles: 10 * 5000}},
		Decode: hlo.Layers{Once: hlo.Work{Cycles: 10 * 60_000, Sums: 10 * 64 * 2048 * 4, Overlapped: 10 * 64 * 4,
			Scatters: hlo.Rows{Operations: 10, Rows: 640, Bytes: 640 * 512},
			Gathers:  hlo.Rows{Operations: 1, Rows: 64, Bytes: 64 * 4096}}},
		Draw: hlo.Work{Cycles: 302_000},
		Around: hlo.Work{Cycles: 2220, Small: hlo.Rows{Operations: 1, Rows: 96, Bytes: 384},
			Offloaded: hlo.Rows{Operations: 1, Rows: 96, Bytes: 384}},
		Round: hlo.Work{Cycles: 4000}, Call: hlo.Work{Cycles: 30_000},
	}
	if s != want {
		t.Errorf("the steps are\n%+v, want\n%+v", s, want)
	}
	if once, ok := hlo.Read(program).Steps(1); !ok || once.Decode.Loops.Cycles != 60_000 {
		t.Errorf("without a loop of layers they are %+v", once)
	}
	if _, ok := hlo.Read("HloModule init\n\nENTRY %main {\n}\n").Steps(1); ok {
		t.Error("a program without loops has steps")
	}
}

// Without kernels, the two loops that take the most cycles are the kinds of steps.
func TestStepsWithoutKernels(t *testing.T) {
	s, ok := hlo.Read(strings.ReplaceAll(program, "tpu_custom_call", "other")).Steps(10)
	if !ok || s.HasKernels || s.Prompt.Once.Cycles != 9_007_000 || s.Decode.Once.Cycles != 600_000 {
		t.Errorf("the steps are %+v", s)
	}
}

func TestLargestCopy(t *testing.T) {
	largest := func(line, in string) hlo.Copy {
		t.Helper()
		c, ok := hlo.Read(strings.Replace(program, in+" {\n", in+" {\n"+line+"\n", 1)).LargestCopy()
		if !ok {
			t.Fatal("no copy was found")
		}
		return c
	}
	for _, c := range []struct {
		name, line, in, array, runs string
		bytes                       int64
	}{
		{"the program's own", "", "%main", "u8[1024,1024]", "a call", 1 << 20},
		{"for each call", "  %c = u8[4,2048,2048]{2,1,0} copy(%w)", "ENTRY %main", "u8[4,2048,2048]", "a call",
			4 << 22},
		{"of a step", "  %c = f32[64,128256]{0,1} transpose(%l), cycles=9", "%step", "f32[64,128256]", "a step",
			64 * 128256 * 4},
		{"experts of a layer", "  %c = (bf16[128,2048,96]{2,1,0}, bf16[128,2048,96]{1,2,0}, u32[]) copy-start(%w)",
			"%promptLayer", "bf16[128,2048,96]", "a layer", 128 * 2048 * 96 * 2},
		{"before a step", "  %c = u8[4,2048,2048]{2,1,0} copy(%w)", "%call", "u8[4,2048,2048]", "a step",
			4 << 22},
		{"to a core's memory", "  %c = bf16[128,2048,96]{2,1,0:S(1)} copy(%w)", "%promptLayer", "u8[1024,1024]",
			"a call", 1 << 20},
		{"within a fusion", "  %c = bf16[128,2048,96]{2,1,0} copy(%w)", "%turned", "u8[1024,1024]", "a call", 1 << 20},
		{"the result of a fusion", "  %c = bf16[2048,4096]{1,0} fusion(%w), calls=%turned", "%step", "bf16[2048,4096]",
			"a step", 2048 * 4096 * 2},
	} {
		if got := largest(c.line, c.in); got.Bytes != c.bytes || got.Array != c.array || got.In != c.runs {
			t.Errorf("%s: %+v, want %s of %d bytes in %s", c.name, got, c.array, c.bytes, c.runs)
		}
	}
}
