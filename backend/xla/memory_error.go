package xla

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// OutOfMemoryError says that a program needs more memory than a device has: HBM on accelerators. What a kernel lacks
// within a core is a [*KernelMemoryError].
type OutOfMemoryError struct {
	Program string
	// Needed and Available are bytes of one device, as exact as the plugin's text, which rounds to 1/100 of the unit;
	// 0 where it does not say.
	Needed, Available int64
	// Running says that the program was compiled, and that memory was asked for while it ran: Needed is that alone, and
	// Available what was free.
	Running bool
	Cause   error
}

// Error implements error.
func (e *OutOfMemoryError) Error() string {
	switch {
	case e.Needed == 0:
		return fmt.Sprintf("xla: program %q does not fit into the device's memory: %v", e.Program, e.Cause)
	case e.Running:
		return fmt.Sprintf("xla: program %q asked for %s of the device's memory, of which %s were free; lower "+
			"--kv-memory, or end what else uses the device", e.Program, sizeText(e.Needed), sizeText(e.Available))
	}
	return fmt.Sprintf("xla: program %q needs %.2f GiB of the device's memory, which has %.2f GiB", e.Program,
		float64(e.Needed)/(1<<30), float64(e.Available)/(1<<30))
}

// Unwrap returns the plugin's error.
func (e *OutOfMemoryError) Unwrap() error { return e.Cause }

// Spaces of a TPU core's own memory: vectors, and scalars.
const (
	VMEM = "vmem"
	SMEM = "smem"
)

// KernelMemoryError says that a program was not compiled because one of its kernels, or another operation, needs more
// of a core's own memory than there is. The size of the model and of its KV cache do not matter to it.
type KernelMemoryError struct {
	Program string
	Space   string // VMEM, SMEM, or what the compiler calls it
	// Operation is what needs the memory, as far as the compiler says; Kernel is what it is of ours, if it is.
	Operation, Kernel string
	// Needed and Limit are bytes, as of OutOfMemoryError. Limit is what a kernel may have, which can be less than there
	// is.
	Needed, Limit int64
	Cause         error

	again string // what is to be tried next; empty for nothing
}

// Error implements error.
func (e *KernelMemoryError) Error() string {
	what := "an operation"
	if name, _, _ := strings.Cut(e.Operation, " "); name != "" {
		what = "operation " + name
	}
	if e.Kernel != "" {
		what = "the kernel " + e.Kernel
	}
	text := fmt.Sprintf("xla: program %q does not compile: %s needs more %s than there is", e.Program, what, e.space())
	if e.Needed > 0 {
		text = fmt.Sprintf("xla: program %q does not compile: %s needs %s of %s, and may have %s", e.Program, what,
			sizeText(e.Needed), e.space(), sizeText(e.Limit))
	}
	return text + "; try --kernels off, another --page-size or a smaller --prefill-tokens, and please report this"
}

func (e *KernelMemoryError) space() string { return strings.ToUpper(e.Space) }

// Unwrap returns the plugin's error.
func (e *KernelMemoryError) Unwrap() error { return e.Cause }

// TryAgain says what a program that is built anew has in place of what did not fit; "" where it would be the same.
func (e *KernelMemoryError) TryAgain() string { return e.again }

// sizeText prints bytes as the compiler does, with units of 1024.
func sizeText(n int64) string {
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

// failed names the program in an error of the compiler. One that is about memory becomes an [*OutOfMemoryError] or a
// [*KernelMemoryError]; after that of a kernel the backend no longer builds programs with this kernel.
func (b *builder) failed(err error) error {
	err = compileError(b.name, err)
	var lack *KernelMemoryError
	if errors.As(err, &lack) && b.backend.mosaic != nil {
		b.backend.mosaic.tooLarge(lack, b.calls)
	}
	return err
}

// lacksMemory tells of a program that does not fit, whatever the machine that it is compiled on.
func lacksMemory(err error) bool {
	var device *OutOfMemoryError
	var kernel *KernelMemoryError
	return errors.As(err, &device) || errors.As(err, &kernel)
}

// compileError reads an error of the compiler.
func compileError(program string, err error) error {
	text := err.Error()
	if lack := kernelMemory(text); lack != nil {
		lack.Program, lack.Cause = program, err
		return lack
	}
	if !exhausted(err) && !strings.Contains(text, "CompileTimeHbmOom") {
		return fmt.Errorf("xla: compiling program %q: %w", program, err)
	}
	oom := &OutOfMemoryError{Program: program, Cause: err}
	if m := hbmNeeds.FindStringSubmatch(text); m != nil {
		oom.Needed, oom.Available = compilerBytes(m[1]), compilerBytes(m[2])
	} else if m := hbmExceeded.FindStringSubmatch(text); m != nil {
		oom.Available = compilerBytes(m[1])
		oom.Needed = oom.Available + compilerBytes(m[2])
	}
	return oom
}

// runError reads an error of an execution.
func runError(program string, err error) error {
	text := err.Error()
	m := attempted.FindStringSubmatch(text)
	if !exhausted(err) && m == nil {
		return fmt.Errorf("xla: executing program %q: %w", program, err)
	}
	oom := &OutOfMemoryError{Program: program, Running: true, Cause: err}
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

// hbmExceeded finds them in what it says where all but the code has room.
var hbmExceeded = regexp.MustCompile(
	`Used [0-9.]+[KMGT]? of ([0-9.]+[KMGT]?) hbm. Exceeded hbm capacity by ([0-9.]+[KMGT]?)\.(?:\s|$)`)

// attempted finds them in what a device says while a program runs.
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
