// Package setting has messages and errors that name settings. The packages that a command is built from know no flags:
// they name a setting as config files do, and whoever shows a message says how a setting is spelled there.
package setting

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Name is the name of a setting in config files, such as "max-seqs", as an argument of a message.
type Name string

// String is the name as plain messages have it.
func (n Name) String() string { return "`" + string(n) + "`" }

// Spelling returns a setting as a message should name it, such as --max-seqs on a command line. nil is the spelling of
// plain messages.
type Spelling func(name string) string

// Text is a message whose format names settings in backquotes, as in "`max-seqs` is %d". Its arguments name settings if
// they are a [Name], a Text or an error of this package: backquotes in a user's text stay.
type Text struct {
	format string
	args   []any
	plain  string
}

// Textf returns a message.
func Textf(format string, args ...any) Text {
	return Text{format, args, fmt.Sprintf(format, args...)}
}

// String is the message with settings in backquotes.
func (t Text) String() string { return t.plain }

// MarshalText implements [encoding.TextMarshaler] by the plain message.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.plain), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]: the message then names no settings.
func (t *Text) UnmarshalText(b []byte) error {
	*t = Textf("%s", string(b)) // b is not ours
	return nil
}

// mention is a setting that a format names.
var mention = regexp.MustCompile("`[a-z][a-z0-9-]*`")

// Spell returns the message in a spelling.
func (t Text) Spell(spell Spelling) string {
	if spell == nil {
		return t.plain
	}
	format := mention.ReplaceAllStringFunc(t.format, func(m string) string {
		return strings.ReplaceAll(spell(strings.Trim(m, "`")), "%", "%%")
	})
	args := slices.Clone(t.args)
	for i, arg := range args {
		switch arg := arg.(type) {
		case Name:
			args[i] = spell(string(arg))
		case Text:
			args[i] = arg.Spell(spell)
		case error:
			args[i] = errors.New(Spell(arg, spell))
		}
	}
	return fmt.Errorf(format, args...).Error() // it knows %w
}

// Error is an error whose message names settings.
type Error struct {
	Text
	err error
}

// Errorf is [fmt.Errorf] for messages that name settings.
func Errorf(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{Text{format, args, err.Error()}, err}
}

// Error is the message with settings in backquotes.
func (e *Error) Error() string { return e.plain }

// Unwrap returns what wraps the arguments of %w.
func (e *Error) Unwrap() error { return e.err }

// Spell returns the message of an error in a spelling. Errors that wrap one of this package have its message within
// their own, or a method Spell of their own.
func Spell(err error, spell Spelling) string {
	var inner []error
	switch e := err.(type) {
	case interface{ Spell(Spelling) string }:
		return e.Spell(spell)
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	}
	text := err.Error()
	end := len(text)
	for _, e := range slices.Backward(inner) { // what is wrapped mostly comes last
		if e == nil {
			continue
		}
		plain, spelled := e.Error(), Spell(e, spell)
		if index := strings.LastIndex(text[:end], plain); index >= 0 {
			text, end = text[:index]+spelled+text[index+len(plain):], index
		}
	}
	return text
}
