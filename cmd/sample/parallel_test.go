package main

import (
	"strings"
	"testing"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/internal/testenv"
)

func TestParallelFlags(t *testing.T) {
	for _, c := range []struct {
		tp, dp        int
		mesh, backend string
		wantTP        int
		wantDP        int
		fails         string
	}{
		{1, 1, "", "xla:cpu", 1, 1, ""},
		{4, 2, "", "xla:cpu", 4, 2, ""},
		{1, 1, "tp=4,dp=2", "xla:tpu", 4, 2, ""},
		{1, 1, "dp=3", "xla:cuda", 1, 3, ""},
		{4, 1, "tp=4", "xla:cpu", 4, 1, ""},
		{2, 1, "tp=4", "xla:cpu", 0, 0, `--mesh is "tp=4", but --tp is 2`},
		{1, 1, "tp=4,tp=4", "xla:cpu", 0, 0, "each once"},
		{1, 1, "pp=4", "xla:cpu", 0, 0, "such as tp=4,dp=2"},
		{1, 1, "tp", "xla:cpu", 0, 0, "such as tp=4,dp=2"},
		{1, 1, "tp=0", "xla:cpu", 0, 0, "such as tp=4,dp=2"},
		{0, 1, "", "xla:cpu", 0, 0, "--tp is 0"},
		{1, -1, "", "xla:cpu", 0, 0, "--dp is -1"},
		{2, 1, "", "go", 0, 0, "--backend go has one"},
	} {
		p := spec.Default().Engine
		p.TP, p.DP, p.Backend = c.tp, c.dp, c.backend
		check := func() error {
			if err := parseMesh(c.mesh, &p); err != nil {
				return err
			}
			return p.Validate()
		}
		err := check()
		if again := check(); (err == nil) != (again == nil) {
			t.Errorf("%+v: checked twice: %v, then %v", c, err, again)
		}
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(asFlags(err.Error()), c.fails) {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || p.TP != c.wantTP || p.DP != c.wantDP:
			t.Errorf("%+v: %d, %d, %v", c, p.TP, p.DP, err)
		}
	}
}

// A plan of devices together is that of one of them.
func TestPlanOfDevicesTogether(t *testing.T) {
	testenv.Slow(t)
	model := testenv.Path("testdata", "models", "smollm2-like")
	args := []string{"--model", model, "--backend", "xla:cpu", "--kv-memory", "1MB", "--max-seqs", "4",
		"--max-model-len", "32"}
	one, code, stderr := runPlanCommand(t, args...)
	if code != exitOK {
		t.Fatal(stderr)
	}
	together, code, stderr := runPlanCommand(t, append(args, "--tp", "2", "--dp", "2")...)
	if code != exitOK {
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
	if code != exitUsage || !strings.Contains(stderr, "--tp 4 and --dp 2 need 8 devices, and tpu has 4") {
		t.Errorf("%d: %s", code, stderr)
	}
}
