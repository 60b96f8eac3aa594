package smoke

import (
	"context"
	"os/exec"
	"runtime"
	"strings"

	"github.com/quire/quire/backend"
)

// describe opens the client by a plan of the smallest model.
func (s *session) describe(ctx context.Context) (*device, error) {
	if s.device != nil {
		return s.device, nil
	}
	g := s.job("", "dense")
	var plan struct {
		Device       string `json:"device"`
		Devices      int    `json:"devices"`
		DeviceMemory int64  `json:"device_memory"`
		Kernels      []struct {
			For    string `json:"for"`
			Kernel string `json:"kernel"`
			Reason string `json:"reason"`
		} `json:"kernels"`
		Warnings []string `json:"warnings"`
		Plan     struct {
			Backend string `json:"backend"`
		} `json:"plan"`
		Estimate struct {
			Chip struct {
				FLOPs     float64 `json:"flops_per_second"`
				Bandwidth float64 `json:"bytes_per_second"`
			} `json:"chip"`
		} `json:"estimate"`
	}
	args := append([]string{"plan", "--json", "--backend", s.backend}, g.engine()...)
	if err := s.json(ctx, &plan, args...); err != nil {
		return nil, err
	}
	version, err := s.program.do(ctx, nil, "version")
	if err != nil {
		return nil, err
	}
	d := &device{Sample: strings.TrimSpace(string(version)), System: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.NumCPU(), Device: plan.Device, Devices: plan.Devices, Memory: plan.DeviceMemory,
		Backend: plan.Plan.Backend, Warnings: plan.Warnings, flops: plan.Estimate.Chip.FLOPs,
		rate: plan.Estimate.Chip.Bandwidth}
	for _, k := range plan.Kernels {
		d.Kernels = append(d.Kernels, k.For+": "+k.Kernel+k.Reason) // one of the two
	}
	if s.backend == backend.XLACUDA {
		text, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,driver_version,memory.total",
			"--format=csv,noheader").Output()
		if err == nil { // it need not be there
			d.Driver = strings.TrimSpace(string(text))
		}
	}
	s.device = d
	return d, nil
}

func machine(ctx context.Context, s *session) (any, error) {
	d, err := s.describe(ctx)
	if err != nil {
		return nil, err
	}
	return d, nil
}
