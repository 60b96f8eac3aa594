package parameter

import "fmt"

// RangeError reports that a parameter is out of its range.
type RangeError struct {
	Field   string // the parameter as the user writes it, such as "top_p"
	Value   any    // the rejected value
	Allowed string // the range, such as "in 0 < top_p <= 1 (1 is off)"
}

// Error implements error.
func (e *RangeError) Error() string {
	return e.Field + " " + e.Problem()
}

// Of returns the parameter as the user writes it, and Problem what is wrong with it.
func (e *RangeError) Of() string { return e.Field }
func (e *RangeError) Problem() string {
	return fmt.Sprintf("is %v, but must be %s", e.Value, e.Allowed)
}

// FormError reports that a parameter has a value that no parameter of its type may have.
type FormError struct {
	Field string // as in [RangeError]
	Err   error
}

func (e *FormError) Error() string   { return e.Field + " " + e.Problem() }
func (e *FormError) Unwrap() error   { return e.Err }
func (e *FormError) Of() string      { return e.Field }
func (e *FormError) Problem() string { return e.Err.Error() }
