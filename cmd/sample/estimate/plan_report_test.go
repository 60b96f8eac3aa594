package estimate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quire/quire/backend/chip"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch/plan"
	"github.com/quire/quire/batch/plan/speed"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
)

// What the CPU has none of: an estimate, kernels for TPU, a search that ends with a bound.
func TestPlanTable(t *testing.T) {
	r := plan.Report{
		Model: "m.json", Device: "v6e:2x4 (TPU v6 lite)", Devices: 8, DeviceMemory: 32 << 30, Weights: 16 << 30,
		KV: 8 << 30, Temporary: 1 << 30, Total: 25 << 30,
		Pages: 1000, TokensOfContext: 64000, Context: 2048, Sequences: 31, KVMemoryFlag: "8589934592", Complete: true,
		Trials: []plan.Trial{{Pages: 1200, Bytes: 40 << 30}, {Pages: 1000, Bytes: 25 << 30, Fits: true}},
		Programs: []plan.Program{{Name: "run", Seconds: 12.34, Memory: xla.Memory{Temporary: 1 << 30, Code: 1 << 20,
			Aliased: 8 << 30}}},
		Kernels: []xla.KernelUse{{Composite: "attention", For: "32 heads", Kernel: "ragged.payload"},
			{Composite: "attention", For: "9 heads", Reason: "no kernel has them"}},
		Warnings: []setting.Text{setting.Textf(
			"attention runs without a kernel, in ordinary operations, for 9 heads: no kernel has them")},
		Estimate: &speed.Estimate{Chip: chip.Chip{Name: "TPU v6e", FLOPs: 918e12, Bandwidth: 1640e9}, Sequences: 31,
			Context: 2048, DecodeFLOPs: 2e12,
			DecodeBytes: 4e10, DecodeTokensPerSecond: 1234, DecodeBound: "memory",
			PrefillFLOPs: 5e12, PrefillBytes: 3e10, PrefillTokensPerSecond: 56789, PrefillBound: "compute"},
		Expected: &speed.Expected{DecodeTokensPerSecond: 987, PrefillTokensPerSecond: 6543,
			Decode: speed.StepTime{Layers: 0.006, Attention: 0.002, Rows: 0.001, Exchanges: 0.0005, Sampling: 0.00025,
				Tables: 0.00025}},
		Plan: engine.Plan{Model: "Qwen3", Parameters: 8_190_000_000, DType: "BFloat16", KVDType: "BFloat16",
			PageSize: 64, KVBytesPerToken: 1 << 17, MaxSeqs: 64, PrefillTokens: 128, Devices: 1},
	}
	table := func() string {
		var out bytes.Buffer
		printPlan(&out, &r)
		return strings.Join(strings.Fields(out.String()), " ")
	}
	has := func(wants ...string) {
		t.Helper()
		got := table()
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in\n%s", want, got)
			}
		}
	}
	r.Plan.StateBytes = 1 << 20
	has("1000 pages of 64 tokens, 128 KiB a token in BFloat16, and states of 1.0 MiB a page")
	r.Plan.StateBytes = 0
	has(
		"model m.json: Qwen3, 8.19 B parameters in BFloat16",
		"devices 8, each with the whole model: planned for one, and 8 run side by side",
		"weights 16 GiB 50.0 %", "KV cache 8.0 GiB 25.0 % 1000 pages of 64 tokens, 128 KiB a token in BFloat16",
		"total 25 GiB 78.1 % 7.0 GiB are free",
		"context 64,000 tokens: the most that compile and fit, to within 1/128, or 1/512 of the memory (1200 pages "+
			"does not fit, 1000 pages fits)",
		"sequences 31 of 2,048 tokens; 31 decode at once",
		"program run compiled in 12.3 s, 1.0 GiB of temporaries, 1.0 MiB of code, 8.0 GiB in place",
		"kernel attention for 32 heads: ragged.payload", "plain form attention for 9 heads: no kernel has them",
		"speed at most, by the roofline of TPU v6e (918 TFLOP/s, 1640 GB/s)",
		"decode 1,234 tokens/s with 31 sequences of 2048 tokens: memory bound, 2000.0 GFLOP and 40 GB a step",
		"prefill 56,789 tokens/s in steps of 128 tokens: compute bound, 5000.0 GFLOP and 30 GB a step",
		"decode 987 tokens/s; 10.00 ms a step: layers 6.00, attention 2.00, rows 1.00, exchanges 0.50, sampling 0.25, "+
			"tables 0.25",
		"warning attention runs without a kernel, in ordinary operations, for 9 heads: no kernel has them",
		"run with --kv-memory 8589934592",
	)
	r.Complete = false
	has(
		"context 64,000 tokens fit; more may, as the search ended with --max-compiles (1200 pages does not fit, 1000 " +
			"pages fits)")
	r.Trials = nil
	has("context 64,000 tokens, as --kv-memory says")
}
