package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/plan"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// runPlanCommand runs "sample plan" and returns its report, or its exit code and what it wrote to standard error.
func runPlanCommand(t *testing.T, args ...string) (r plan.Report, code int, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = sampleMain(append([]string{"plan", "--json"}, args...), &cli.Environment{Stdout: &out, Stderr: &errs})
	if code == cli.ExitOK {
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
	}
	return r, code, errs.String()
}

func needLibtpu(t *testing.T) {
	t.Helper()
	if _, err := setup.FindPlugin("tpu"); err != nil {
		t.Skip(`libtpu is not installed ("sample setup tpu" fetches it): nothing is planned for TPU`)
	}
}

// smallLlama writes the config of a model of head dimension 128 with two layers.
func smallLlama(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small.json")
	config := `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": 2048, "hidden_size": 512,
"intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 128,
"max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2}`
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPlanOnTheCPU(t *testing.T) {
	testenv.Slow(t)
	r, code, stderr := runPlanCommand(t, "--model", testenv.Path("testdata", "models", "llama32-tied"), "--backend",
		"xla:cpu", "--kv-memory", "1MB", "--max-seqs", "4")
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if r.Total < r.Weights+r.KV || r.Pages != r.Plan.Pages || r.Pages == 0 || len(r.Programs) != len(r.Plan.Programs) ||
		r.Estimate != nil || len(r.Trials) != 0 {
		t.Errorf("the plan is %+v", r)
	}
}

// The search ends with a count that fits, and the table adds up.
func TestPlanForTPU(t *testing.T) {
	testenv.Slow(t)
	needLibtpu(t)
	r, code, stderr := runPlanCommand(t, "--model", smallLlama(t), "--dtype", "bf16", "--topology", "v5e:2x4",
		"--max-seqs", "2048", "--page-size", "32", "--max-compiles", "4", "--layers", "loop")
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if r.Devices != 8 || r.DeviceMemory != 16909332480 || r.Total > r.DeviceMemory || r.Total < r.Weights+r.KV {
		t.Errorf("the plan is %+v", r)
	}
	sum := r.Weights + r.KV + r.Tables + r.Temporary + r.Code + r.Staging + r.LaterFeatures + r.Rest
	if sum != r.Total || r.Rest < 0 {
		t.Errorf("the parts are %d bytes, the total %d", sum, r.Total)
	}
	if len(r.Trials) == 0 || r.Pages == 0 || r.TokensOfContext != r.Pages*32 || r.Plan.Layers != engine.LayersLoop {
		t.Errorf("%d pages after the trials %v", r.Pages, r.Trials)
	}
	if r.Estimate == nil || r.Estimate.Chip.Name != "TPU v5e" || r.Estimate.DecodeBound != "memory" {
		t.Errorf("the estimate is %+v", r.Estimate)
	}
	if e := r.Expected; e == nil || e.DecodeTokensPerSecond <= 0 ||
		e.DecodeTokensPerSecond > r.Estimate.DecodeTokensPerSecond || e.Steps.Decode.Once.Scatters.Rows == 0 {
		t.Errorf("expected is %+v", e)
	}
}

func TestPlanForGPU(t *testing.T) {
	testenv.Slow(t)
	testenv.Topology(t, "h200:1") // skips where its compiler is not
	args := []string{"--model", smallLlama(t), "--dtype", "bf16", "--topology", "h200:1", "--page-size", "32",
		"--layers", "loop", "--kv-memory", "1GiB"}
	r, code, stderr := runPlanCommand(t, args...)
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if r.Devices != 1 || r.DeviceMemory < 135e9 || r.Total < r.Weights+r.KV || r.Plan.PrefillTokens != 512 {
		t.Errorf("the plan is %+v", r)
	}
	if len(r.Kernels) != 2 || !strings.HasPrefix(r.Kernels[0].Kernel, "Triton") ||
		!strings.HasPrefix(r.Kernels[1].Kernel, "Triton") {
		t.Errorf("the kernels are %+v", r.Kernels)
	}
	if r.Estimate == nil || r.Estimate.Chip.Name != "H200 SXM" || r.Expected != nil {
		t.Errorf("the estimate is %+v, expected %+v", r.Estimate, r.Expected)
	}
	if _, code, stderr := runPlanCommand(t, append(args, "--compile-only")...); code != cli.ExitUsage ||
		!strings.Contains(stderr, "--compile-only is for TPUs") {
		t.Errorf("--compile-only: exit code %d: %s", code, stderr)
	}
}

func TestPlanOfAModelThatDoesNotFit(t *testing.T) {
	needLibtpu(t)
	_, code, stderr := runPlanCommand(t, "--model", testenv.Path("configs", "models", "llama-3.1-70b.json"), "--dtype",
		"bf16", "--topology", "v6e:2x4")
	if code != cli.ExitFailure || !strings.Contains(stderr, "does not fit: its weights are 131.4 GiB") ||
		!strings.Contains(stderr, "v6e:2x4 (TPU v6 lite) has 31.2 GiB") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if _, code, stderr := runPlanCommand(t, "--model", smallLlama(t), "--topology", "v9z:1x1"); code != cli.ExitUsage ||
		!strings.Contains(stderr, "unknown topology") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
