package spec

import (
	"fmt"
	"slices"
	"strings"
)

// FieldError describes what is wrong with a field of a [Spec] or of [Options]. Field is the name that config files have
// for it, such as "max-tokens".
type FieldError struct {
	Field, Problem string
}

func (e *FieldError) Error() string { return "`" + e.Field + "` " + e.Problem }

func Invalid(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

func oneOf(field, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	last := len(allowed) - 1
	return Invalid(field, "is %q, but must be %s or %s", value, strings.Join(allowed[:last], ", "), allowed[last])
}

// FirstError returns the error of the first check that fails.
func FirstError(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}
