//go:build !(linux && amd64)

package setup

// installAccelerator refuses: the plugins exist for linux on x86-64 only.
func installAccelerator(accelerator, string) error { return errNotHere }
