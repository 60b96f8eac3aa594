package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// deviceKind describes how the devices of a platform appear on a machine.
type deviceKind struct {
	platform string
	name     string   // for people
	files    []string // globs of device files, any of which suffices
	// vendor and ids identify devices on the PCI bus that have no file names of their own.
	vendor string
	ids    []string
	looked string // places that were looked in, for people
}

// googleVendor is Google's PCI vendor id.
const googleVendor = "0x1ae0"

// deviceKinds are the kinds of platforms other than "cpu". The PCI ids of TPUs are the ones that JAX uses
// (hardware_utils.py): v2 and v3, one without a name, v4, v5p, v5e, v6e, TPU7x.
var deviceKinds = []deviceKind{
	{platform: "cuda", name: "NVIDIA GPU", files: []string{"dev/nvidia[0-9]*", "usr/lib/wsl/lib/libcuda.so.1"},
		looked: "/dev/nvidia*, and libcuda of WSL"},
	{platform: "tpu", name: "TPU", files: []string{"dev/accel[0-9]*"},
		looked: "/dev/accel*, and Google's chips in /sys/bus/pci/devices",
		vendor: googleVendor, ids: []string{"0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076"}},
}

// system is the root of the file system in which devices are looked up; tests set their own.
var system = "/"

// Accelerators lists the plugin platforms other than "cpu" that have a device on this machine.
func Accelerators() []string {
	var found []string
	for _, d := range deviceKinds {
		if d.here() {
			found = append(found, d.platform)
		}
	}
	return found
}

func (d deviceKind) here() bool {
	for _, pattern := range d.files {
		if matches, _ := filepath.Glob(filepath.Join(system, pattern)); len(matches) > 0 {
			return true
		}
	}
	return len(d.onBus()) > 0
}

// onBus lists the folders of the kind's devices on the PCI bus.
func (d deviceKind) onBus() []string {
	if d.vendor == "" {
		return nil
	}
	devices, _ := filepath.Glob(filepath.Join(system, "sys/bus/pci/devices/*"))
	return slices.DeleteFunc(devices, func(dir string) bool {
		vendor, _ := os.ReadFile(filepath.Join(dir, "vendor"))
		id, _ := os.ReadFile(filepath.Join(dir, "device"))
		return strings.TrimSpace(string(vendor)) != d.vendor || !slices.Contains(d.ids, strings.TrimSpace(string(id)))
	})
}

// TPUChips returns the number of TPU chips on this machine, or in this container.
func TPUChips() int {
	for _, pattern := range []string{"dev/accel[0-9]*", "dev/vfio/[0-9]*"} {
		if files, _ := filepath.Glob(filepath.Join(system, pattern)); len(files) > 0 {
			return len(files)
		}
	}
	for _, d := range deviceKinds {
		if d.platform == "tpu" {
			return len(d.onBus())
		}
	}
	return 0
}

// GPUs returns the number of NVIDIA GPUs that have a device file. It is 0 on WSL, which has no such files.
func GPUs() int {
	files, _ := filepath.Glob(filepath.Join(system, "dev/nvidia[0-9]*"))
	return len(files)
}

// NoDevice reports that this machine has no device of a platform, and which places were checked. It is empty if there
// is a device, and for platforms that need none.
func NoDevice(platform string) string {
	for _, d := range deviceKinds {
		if d.platform == platform && !d.here() {
			return fmt.Sprintf("no %s was found on this machine (looked for %s)", d.name, d.looked)
		}
	}
	return ""
}

// NotFetchedError reports that a plugin is not on this machine and is too large to be fetched without being asked
// for.
type NotFetchedError struct {
	Platform string
	NoDevice string // the result of [NoDevice], if a device is needed
}

// Error returns one sentence with the size and the command.
func (e *NotFetchedError) Error() string {
	a := accelerators[e.Platform]
	remedy := fmt.Sprintf(`"sample setup %s" installs it (%s), or set %s=FILE to use your own plugin`, e.Platform,
		a.cost, EnvPlugin(e.Platform))
	if e.NoDevice != "" {
		return fmt.Sprintf("%s, and the %s is not installed; if the machine does have one, %s", e.NoDevice,
			a.title, remedy)
	}
	return fmt.Sprintf("the %s is not installed: %s", a.title, remedy)
}

// Usable returns a [*NotFetchedError] if the plugin of one of the [Platforms] is not installed and [UsePlugin] would
// not fetch it. With device set, the plugin must run on a device of this machine. An installed plugin is usable
// whatever devices are found, except libtpu, which gives a [*NoTPUError] if there is no TPU. The user's own plugin is
// always usable.
func Usable(platform string, device bool) error {
	if _, large := accelerators[platform]; !large {
		return nil
	}
	path, source, err := findPlugin(platform)
	if err == nil && device && platform == "tpu" && source != EnvPlugin(platform) && source != ownPlugin &&
		withoutTPU(system, os.Environ()) {
		return &NoTPUError{path}
	}
	if err == nil || !isMissing(err) {
		return err
	}
	e := &NotFetchedError{Platform: platform}
	if device {
		e.NoDevice = NoDevice(platform)
	}
	return e
}

// UsePlugin is [EnsurePlugin] for callers that did not ask for a download: the CPU plugin is fetched, a larger one is
// not; see [Usable].
func UsePlugin(ctx context.Context, platform string, device bool, progress Progress) (string, error) {
	if err := Usable(platform, device); err != nil {
		return "", err
	}
	return EnsurePlugin(ctx, platform, progress)
}

// Cost describes what it takes to install one of the [Platforms], for people. It is empty for plugins that are
// fetched without being asked for.
func Cost(platform string) string { return accelerators[platform].cost }
