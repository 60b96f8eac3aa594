package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// NoTPUError reports that libtpu is installed, but this machine has no TPU: libtpu would wait minutes for one.
type NoTPUError struct {
	Plugin string // libtpu's path
}

// Error returns one sentence with the remedies.
func (e *NoTPUError) Error() string {
	return fmt.Sprintf("this machine has no TPU (looked for /dev/accel*, /dev/vfio/* and devices of Google's in "+
		"/sys/bus/pci/devices): use a machine that has one, or a different backend, such as xla:cpu; if there is one "+
		"after all, set %s=%s to open it", EnvPlugin("tpu"), e.Plugin)
}

// withoutTPU reports whether a machine has no TPU, neither below root, the root of its file system, nor elsewhere
// according to its environment. It must not miss an existing TPU: an unreadable folder, any device of Google's and
// any variable about TPUs count as one.
func withoutTPU(root string, environ []string) bool {
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if value != "" && (strings.Contains(name, "TPU") || strings.HasPrefix(name, "MEGASCALE_")) {
			return false
		}
	}
	device, err := os.ReadDir(filepath.Join(root, "dev"))
	if err != nil {
		return false
	}
	for _, file := range device {
		if strings.HasPrefix(file.Name(), "accel") {
			return false
		}
	}
	if groups, err := os.ReadDir(filepath.Join(root, "dev/vfio")); len(groups) > 0 || unreadable(err) {
		return false
	}
	bus := filepath.Join(root, "sys/bus/pci/devices")
	devices, err := os.ReadDir(bus)
	if unreadable(err) {
		return false
	}
	for _, d := range devices {
		vendor, err := os.ReadFile(filepath.Join(bus, d.Name(), "vendor"))
		if err != nil || strings.TrimSpace(string(vendor)) == googleVendor {
			return false
		}
	}
	return true
}

// unreadable reports whether a folder exists, or may exist, but could not be read.
func unreadable(err error) bool { return err != nil && !errors.Is(err, fs.ErrNotExist) }
