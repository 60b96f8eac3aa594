package measure

import (
	"bufio"
	"fmt"
	"iter"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Machine describes the machine that figures were taken on, and the software.
type Machine struct {
	CPU       string            `json:"cpu"`
	Threads   int               `json:"threads"` // threads that this process may use
	CPUs      int               `json:"cpus"`    // CPUs of the machine, as the kernel lists them
	Memory    int64             `json:"memory_bytes"`
	Kernel    string            `json:"kernel"`
	Load      string            `json:"load_average"` // load before the runs: figures of a busy machine are low
	Go        string            `json:"go"`
	Version   string            `json:"version"`
	Libraries map[string]string `json:"libraries"`
	Date      string            `json:"date"`
}

func thisMachine(version string) Machine {
	m := Machine{
		Threads: runtime.NumCPU(), Memory: ProcBytes("/proc/meminfo", "MemTotal"),
		Go: runtime.Version(), Version: version,
		Libraries: map[string]string{}, Date: time.Now().UTC().Format(time.RFC3339),
	}
	m.CPU, m.CPUs = processors(procLines("/proc/cpuinfo"))
	for line := range procLines("/proc/sys/kernel/osrelease") {
		m.Kernel = line
	}
	for line := range procLines("/proc/loadavg") {
		m.Load, _, _ = strings.Cut(line, " ")
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if strings.HasPrefix(dep.Path, "github.com/gomlx/") {
				m.Libraries[dep.Path] = dep.Version
			}
		}
	}
	return m
}

// processors returns the name of the processors that lines of /proc/cpuinfo list, and how many they are. Family and
// model are part of the name if they are known: clouds name many processors "AMD EPYC".
func processors(lines iter.Seq[string]) (name string, n int) {
	name = "unknown"
	var family, model string
	for line := range lines {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(field) {
		case "model name":
			name = value
		case "cpu family":
			family = value
		case "model":
			model = value
		case "processor":
			n++
		}
	}
	if family != "" && model != "" {
		name += fmt.Sprintf(" (family %s, model %s)", family, model)
	}
	return name, n
}

// procLines yields the lines of a file of /proc; none if there is no such file.
func procLines(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		f, err := os.Open(path)
		if err != nil {
			return
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if !yield(s.Text()) {
				return
			}
		}
	}
}

// ProcBytes returns a number that a file of /proc gives in kB; 0 if it does not.
func ProcBytes(path, name string) int64 {
	for line := range procLines(path) {
		var kb int64
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	return 0
}

const self = "/proc/self/status"

// ResidentMemory is what this process has in memory, in bytes; 0 if the system does not report it.
func ResidentMemory() int64 { return ProcBytes(self, "VmRSS") }

func peakMemory() int64 { return ProcBytes(self, "VmHWM") }

// resetPeakMemory resets the high-water mark if the system allows it; otherwise the mark covers the whole process.
func resetPeakMemory() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }
