package main

import (
	"strings"
	"testing"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/internal/testenv"
)

// A plan of devices together is that of one of them.
func TestPlanOfDevicesTogether(t *testing.T) {
	testenv.Slow(t)
	model := testenv.Path("testdata", "models", "smollm2-like")
	args := []string{"--model", model, "--backend", "xla:cpu", "--kv-memory", "1MB", "--max-seqs", "4",
		"--max-model-len", "32"}
	one, code, stderr := runPlanCommand(t, args...)
	if code != cli.ExitOK {
		t.Fatal(stderr)
	}
	together, code, stderr := runPlanCommand(t, append(args, "--tp", "2", "--dp", "2")...)
	if code != cli.ExitOK {
		t.Fatal(stderr)
	}
	if p := together.Plan; p.Devices != 2 || together.Devices != 4 ||
		p.KVBytesPerToken*3 != one.Plan.KVBytesPerToken*2 {
		t.Errorf("%d devices of %d, %d bytes a token; one has %d", p.Devices, together.Devices, p.KVBytesPerToken,
			one.Plan.KVBytesPerToken)
	}
	if w := together.Weights; w >= one.Weights*3/4 || w < one.Weights/2 {
		t.Errorf("weights of one of two devices are %d bytes, all are %d", w, one.Weights)
	}
}

func TestPlanForTooFewDevices(t *testing.T) {
	needLibtpu(t)
	_, code, stderr := runPlanCommand(t, "--model", smallLlama(t), "--topology", "v5e:2x2", "--tp", "4", "--dp", "2")
	if code != cli.ExitUsage || !strings.Contains(stderr, "--tp 4 and --dp 2 need 8 devices, and tpu has 4") {
		t.Errorf("%d: %s", code, stderr)
	}
}
