package arch

import "fmt"

// UnsupportedError names a feature of a model that is not supported. The wrapping error names the file.
type UnsupportedError struct {
	Feature string // e.g. `architecture "GPT2LMHeadModel"`
	Remedy  string // what is supported instead
}

func (e *UnsupportedError) Error() string {
	if e.Remedy == "" {
		return e.Feature + " is not supported"
	}
	return fmt.Sprintf("%s is not supported; %s", e.Feature, e.Remedy)
}

// Unsupported returns the error for a feature. remedy may be "".
func Unsupported(remedy, format string, args ...any) error {
	return &UnsupportedError{Feature: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Limits that no model comes near. They keep products of sizes in range and stop absurd configs early.
const (
	maxLayers    = 4096
	maxDimension = 1 << 22
	maxContext   = 1 << 30
	maxTaps      = 16
)
