package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// flagInText is a flag in a text. After an equals sign it is part of a variable's value, and not a flag of this
// command.
var flagInText = regexp.MustCompile(`(?:^|[^=\w-])--[a-z]`)

// The packages that a command is built from know no flags: texts of theirs name a setting in backquotes, and the
// command writes its flag there.
func TestSettingsAreNoFlags(t *testing.T) {
	for _, f := range files {
		below := strings.HasPrefix(f.dir, "batch") || strings.HasPrefix(f.dir, "engine")
		// They give flags to a script, and have properties of CSS.
		if f.test || !below || f.dir == "batch/capture" || f.dir == "batch/telemetry/report" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err == nil && flagInText.MatchString(text) && !strings.HasPrefix(text, "--xla_") {
				t.Errorf("%s: %s names a flag; name the setting in backquotes", f.path, literal.Value)
			}
			return true
		})
	}
}
