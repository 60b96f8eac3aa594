// Package memoryerror reads the errors of compilers and devices that are about memory.
package memoryerror

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// Device reports that a program needs more memory than a device has: HBM on accelerators. A kernel that needs more of
// the memory within a core is a [*Kernel].
type Device struct {
	Program string
	// Needed and Available are bytes of one device, as exact as the plugin's text, which rounds to 1/100 of the unit.
	// They are 0 if the text has no figures.
	Needed, Available int64
	// Running reports that the program was compiled and asked for memory while it ran. Needed is then the size of that
	// request, and Available is what was free.
	Running bool
	Cause   error
}

// Error implements error.
func (e *Device) Error() string {
	switch {
	case e.Needed == 0:
		return fmt.Sprintf("xla: program %q does not fit into the device's memory: %v", e.Program, e.Cause)
	case e.Running:
		return fmt.Sprintf("xla: program %q asked for %s of the device's memory, of which %s were free; lower "+
			"--kv-memory, or end what else uses the device", e.Program, SizeText(e.Needed), SizeText(e.Available))
	}
	return fmt.Sprintf("xla: program %q needs %.2f GiB of the device's memory, which has %.2f GiB", e.Program,
		float64(e.Needed)/(1<<30), float64(e.Available)/(1<<30))
}

// Unwrap returns the plugin's error.
func (e *Device) Unwrap() error { return e.Cause }

// Memory spaces of a TPU core: for vectors and for scalars.
const (
	VMEM = "vmem"
	SMEM = "smem"
)

// Kernel reports that a program was not compiled because one of its kernels, or another operation, needs more of a
// core's own memory than there is. It does not depend on the size of the model or of its KV cache.
type Kernel struct {
	Program string
	Space   string // VMEM, SMEM, or what the compiler calls it
	// Operation is the operation that needs the memory, if the compiler names it; Kernel is our kernel that it is, if
	// it is one.
	Operation, Kernel string
	// Needed and Limit are bytes, like those of Device. Limit is what a kernel may have, which can be less than there
	// is.
	Needed, Limit int64
	Cause         error

	// Next is what TryAgain returns.
	Next string
}

// Error implements error.
func (e *Kernel) Error() string {
	what := "an operation"
	if name, _, _ := strings.Cut(e.Operation, " "); name != "" {
		what = "operation " + name
	}
	if e.Kernel != "" {
		what = "the kernel " + e.Kernel
	}
	text := fmt.Sprintf("xla: program %q does not compile: %s needs more %s than there is", e.Program, what,
		e.SpaceName())
	if e.Needed > 0 {
		text = fmt.Sprintf("xla: program %q does not compile: %s needs %s of %s, and may have %s", e.Program, what,
			SizeText(e.Needed), e.SpaceName(), SizeText(e.Limit))
	}
	return text + "; try --kernels off, another --page-size or a smaller --prefill-tokens, and please report this"
}

// SpaceName returns the name of the memory space as people write it.
func (e *Kernel) SpaceName() string { return strings.ToUpper(e.Space) }

// Unwrap returns the plugin's error.
func (e *Kernel) Unwrap() error { return e.Cause }

// TryAgain describes what replaces the kernel that did not fit when the program is built again. It is "" if the program
// would be the same.
func (e *Kernel) TryAgain() string { return e.Next }

// SizeText prints bytes as the compiler does, with units of 1024.
func SizeText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.2f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// IsOutOfMemory reports whether a program does not fit, on whichever machine it is compiled.
func IsOutOfMemory(err error) bool {
	var device *Device
	var kernel *Kernel
	return errors.As(err, &device) || errors.As(err, &kernel)
}

// Compiling reads an error of the compiler, and names the program in it.
func Compiling(program string, err error) error {
	text := err.Error()
	if lack := kernelMemory(text); lack != nil {
		lack.Program, lack.Cause = program, err
		return lack
	}
	if !exhausted(err) && !strings.Contains(text, "CompileTimeHbmOom") {
		return fmt.Errorf("xla: compiling program %q: %w", program, err)
	}
	oom := &Device{Program: program, Cause: err}
	if m := hbmNeeds.FindStringSubmatch(text); m != nil {
		oom.Needed, oom.Available = compilerBytes(m[1]), compilerBytes(m[2])
	} else if m := hbmExceeded.FindStringSubmatch(text); m != nil {
		oom.Available = compilerBytes(m[1])
		oom.Needed = oom.Available + compilerBytes(m[2])
	}
	return oom
}

// Running reads an error of an execution, and names the program in it.
func Running(program string, err error) error {
	text := err.Error()
	m := attempted.FindStringSubmatch(text)
	if !exhausted(err) && m == nil {
		return fmt.Errorf("xla: executing program %q: %w", program, err)
	}
	oom := &Device{Program: program, Running: true, Cause: err}
	if m != nil {
		oom.Needed, oom.Available = compilerBytes(m[1]), compilerBytes(m[2])
	}
	return oom
}

func exhausted(err error) bool {
	var e *pjrtc.Error
	text := err.Error() // go-xla's own errors have the code in it
	return errors.As(err, &e) && e.Code == pjrtc.CodeResourceExhausted ||
		strings.Contains(text, "RESOURCE_EXHAUSTED") ||
		strings.Contains(text, fmt.Sprintf("(code=%d)", pjrtc.CodeResourceExhausted))
}

const bytesPattern = `([0-9.]+[KMGT]?)i?B?`

// hbmNeeds finds the sizes in libtpu's error E1000.
var hbmNeeds = regexp.MustCompile(
	`total memory required[^(]*\(([0-9.]+[KMGT]?)\) exceeds available HBM \(([0-9.]+[KMGT]?)\)`)

// hbmExceeded finds the sizes in libtpu's error if there is room for all but the code.
var hbmExceeded = regexp.MustCompile(
	`Used [0-9.]+[KMGT]? of ([0-9.]+[KMGT]?) hbm. Exceeded hbm capacity by ([0-9.]+[KMGT]?)\.(?:\s|$)`)

// attempted finds the sizes in a device's error while a program runs.
var attempted = regexp.MustCompile(
	`Attempting to (?:allocate|reserve) ` + bytesPattern + `.*?There (?:are|is) ` + bytesPattern + ` free`)

// compilerBytes reads a size as XLA writes it, "15.75G" for instance, with units of 1024.
func compilerBytes(text string) int64 {
	unit := 1.0
	if i := strings.IndexByte("KMGT", text[len(text)-1]); i >= 0 {
		unit = float64(int64(1) << (10 * (i + 1)))
		text = text[:len(text)-1]
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return int64(n * unit)
}

// kernelMemory reads the compiler's error about a core's memory. It returns nil for other errors.
func kernelMemory(text string) *Kernel {
	if m := allocation.FindStringSubmatch(text); m != nil && m[3] != "hbm" {
		return &Kernel{Space: m[3], Needed: compilerBytes(m[1]), Limit: compilerBytes(m[2])}
	}
	space := memorySpace.FindStringSubmatch(text)
	if space == nil || space[1] == "hbm" {
		return nil
	}
	lack := &Kernel{Space: space[1]}
	if m := operationOf.FindStringSubmatch(text); m != nil {
		lack.Operation = m[1]
	}
	if m := scopedSize.FindStringSubmatch(text); m != nil {
		lack.Needed, lack.Limit = compilerBytes(m[1]), compilerBytes(m[2])
	} else if m := usedOf.FindStringSubmatch(text); m != nil {
		lack.Needed, lack.Limit = compilerBytes(m[1]), compilerBytes(m[2])
	}
	return lack
}

// allocation finds the sizes of what a kernel allocates itself. The other patterns are about what the kernel and the
// compiler put on its stack.
var (
	allocation = regexp.MustCompile(
		`Allocation \(size=(\d+)\) would exceed memory \(size=(\d+)\)[^\n]*?\bspace=(\w+)`)
	memorySpace = regexp.MustCompile(`[Rr]an out of memory in memory space (\w+)`)
	operationOf = regexp.MustCompile(`allocating on stack for (%?[^\n]+?)\. Scoped allocation`)
	scopedSize  = regexp.MustCompile(
		`Scoped allocation with size ([0-9.]+[KMGT]?) and limit ([0-9.]+[KMGT]?) exceeded scoped \w+ limit`)
	usedOf = regexp.MustCompile(`Used ([0-9.]+[KMGT]?) of ([0-9.]+[KMGT]?) \w+`)
)
