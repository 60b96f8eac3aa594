package spec

import (
	"slices"
	"strings"

	"github.com/quire/quire/data/setting"
)

// FieldError describes what is wrong with a field of a [Spec] or of [Options]. Field is the name that config files have
// for it, such as "max-tokens".
type FieldError struct {
	Field   string
	Problem error
}

func (e *FieldError) Error() string { return e.Spell(nil) }

// Spell is the error with settings in a spelling: see [setting.Spell].
func (e *FieldError) Spell(spell setting.Spelling) string {
	return setting.Textf("%s %v", setting.Name(e.Field), e.Problem).Spell(spell)
}

func (e *FieldError) Unwrap() error { return e.Problem }

// Invalid is a FieldError, whose problem may name other settings: see [setting.Errorf].
func Invalid(field, format string, args ...any) error {
	return &FieldError{field, setting.Errorf(format, args...)}
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
