package program

import (
	"fmt"
	"regexp"
	"strings"
)

// modules are modules, given as text, whose functions a program calls.
type modules struct {
	names map[string]string // the main function's name in the program, by the key that the caller gives
	text  strings.Builder
}

// symbol is a function's name in a module's text.
var symbol = regexp.MustCompile(`@[A-Za-z_][\w.$]*`)

// add adds the functions of a module to the program, under names of their own, and keeps the name of function main
// under the key.
func (m *modules) add(key, module string) error {
	_, body, found := strings.Cut(module, "{\n")
	end := strings.LastIndex(body, "}")
	if !found || end < 0 || !strings.Contains(body, "@main(") {
		return fmt.Errorf("the text is not a module with a function main")
	}
	prefix := fmt.Sprintf("kernel%d_", len(m.names))
	body = symbol.ReplaceAllStringFunc(body[:end], func(name string) string { return "@" + prefix + name[1:] })
	m.text.WriteString(strings.Replace(body, "func.func public ", "func.func private ", 1))
	if m.names == nil {
		m.names = map[string]string{}
	}
	m.names[key] = prefix + "main"
	return nil
}
