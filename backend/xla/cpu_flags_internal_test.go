package xla

import (
	"os"
	"testing"
)

// Programs for other devices have the same key whether or not the process has opened CPUs.
func TestFlagsOfCPUsAreNotTheUsers(t *testing.T) {
	const own = "--xla_dump_max_hlo_modules=3"
	for _, flags := range []string{own, cpuFlags + " " + own} {
		t.Setenv(xlaFlags, flags)
		if got := userFlags(); got != own {
			t.Errorf("of %q the user's own are %q, want %q", flags, got, own)
		}
		setCPUFlags()
		if got := os.Getenv(xlaFlags); got != cpuFlags+" "+own {
			t.Errorf("%q became %q", flags, got)
		}
	}
	t.Setenv(xlaFlags, cpuFlags)
	if got := userFlags(); got != "" {
		t.Errorf("of %q the user's own are %q, want none", cpuFlags, got)
	}
}

// Programs without kernels are compiled with the same options, since a plugin reads them once.
func TestFlagsOfCPUsWithoutKernels(t *testing.T) {
	for _, kernels := range []string{KernelsAuto, KernelsOff} {
		t.Setenv(xlaFlags, "")
		_, err := New(Options{Plugin: "/no/plugin.so", Platform: "cpu", Kernels: kernels})
		if err == nil {
			t.Fatal("a plugin that is not there was opened")
		}
		if got := os.Getenv(xlaFlags); got != cpuFlags {
			t.Errorf("with kernels %q the options are %q, want %q", kernels, got, cpuFlags)
		}
	}
}
