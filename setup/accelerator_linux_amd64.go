package setup

import xlainstaller "github.com/gomlx/go-xla/installer"

// installAccelerator installs the plugin into dir. The library shows its own progress on standard output.
func installAccelerator(a accelerator, dir string) error {
	if a.platform == "tpu" {
		return xlainstaller.TPUInstall("tpu", a.version, dir, true, xlainstaller.Normal)
	}
	return xlainstaller.CudaInstall("cuda13", a.version, dir, true, xlainstaller.Normal)
}
