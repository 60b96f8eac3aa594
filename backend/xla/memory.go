package xla

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla/internal/memoryerror"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// OutOfMemoryError reports that a program needs more memory than a device has.
type OutOfMemoryError = memoryerror.Device

// KernelMemoryError reports that one of a program's kernels needs more of a core's own memory than there is.
type KernelMemoryError = memoryerror.Kernel

// Memory spaces of a TPU core, in [KernelMemoryError].
const (
	VMEM = memoryerror.VMEM
	SMEM = memoryerror.SMEM
)

// FreeMemory returns how many bytes can still be allocated on a device. On the CPU that is the host's memory that the
// system reports as available, within the limit of the process's control group. A device of a group has a share of it.
// For a topology it is all memory of a device.
func (d *devices) FreeMemory(number compute.DeviceNum) (int64, error) {
	if d.topology != nil {
		if d.topology.MemoryBytes == 0 {
			return 0, fmt.Errorf("xla: the plugin does not say how much memory a device of %s has", d.topology.Name)
		}
		return d.topology.MemoryBytes, d.valid()
	}
	device, err := d.device(number)
	if err != nil {
		return 0, err
	}
	if d.platform == "cpu" || d.standIn {
		free, err := hostMemory("/proc/meminfo", "/sys/fs/cgroup")
		if d.group != nil {
			free /= int64(d.client.NumDevices()) // all devices have the same memory
		}
		return free, err
	}
	inUse, limit, err := pjrtc.MemoryStats(device)
	if err != nil {
		return 0, fmt.Errorf("xla: the free memory of device %d: %w", number, err)
	}
	if limit == 0 {
		return 0, fmt.Errorf("xla: the plugin for %s does not say how much memory device %d has", d.platform, number)
	}
	return max(0, limit-inUse), nil
}

// hostMemory returns the available memory according to the files of Linux.
func hostMemory(meminfo, cgroup string) (int64, error) {
	f, err := os.Open(meminfo)
	if err != nil {
		return 0, fmt.Errorf("xla: the free memory of the host: %w", err)
	}
	defer f.Close()
	free := int64(-1)
	for s := bufio.NewScanner(f); s.Scan(); {
		var kb int64
		if n, _ := fmt.Sscanf(s.Text(), "MemAvailable: %d kB", &kb); n == 1 {
			free = kb << 10
		}
	}
	if free < 0 {
		return 0, fmt.Errorf("xla: the free memory of the host: %s has no MemAvailable", meminfo)
	}
	limit, err := cgroupNumber(filepath.Join(cgroup, "memory.max"))
	if err != nil {
		return free, nil // no limit, or no control groups
	}
	used, err := cgroupNumber(filepath.Join(cgroup, "memory.current"))
	if err != nil {
		return free, nil
	}
	return min(free, max(0, limit-used)), nil
}

func cgroupNumber(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
