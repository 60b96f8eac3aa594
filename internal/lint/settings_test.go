package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// flagInText is a flag in a text. After an equals sign it is part of a variable's value, and not a flag of this
// command.
var flagInText = regexp.MustCompile(`(?:^|[^=\w-])--[a-z]`)

// settingInText is a setting that a message names, or the place of one.
var settingInText = regexp.MustCompile("`(?:[a-z][a-z0-9-]*|%s)`")

// spellers are the functions whose format may name settings, except those of package fmt.
var spellers = []string{"Errorf", "Fail", "Invalid", "Printf", "Statusf", "Textf", "invalid", "refuse"}

// literals visits the string literals of a file.
type literals struct {
	format bool // they are the format of one of spellers, or a constant, which may be one
	visit  func(literal *ast.BasicLit, format bool)
}

func (l literals) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.GenDecl:
		l.format = n.Tok == token.CONST
	case *ast.CallExpr:
		of, name := "", ""
		switch f := n.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
			if x, ok := f.X.(*ast.Ident); ok {
				of = x.Name + "."
			}
		}
		l.format = of != "fmt." && slices.Contains(spellers, name)
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			l.visit(n, l.format)
		}
	}
	return l
}

// The packages that a command is built from know no flags: their messages name a setting in backquotes, in a format of
// package setting, so that whoever shows a message can spell its settings and leaves a user's text alone.
func TestSettingsAreNoFlags(t *testing.T) {
	for _, f := range files {
		in := func(dirs ...string) bool {
			return slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(f.dir, dir) })
		}
		// They give flags to a script, and have properties of CSS.
		if f.test || !in("batch", "data", "deploy", "engine") || in("batch/capture", "batch/telemetry/report") {
			continue
		}
		ast.Walk(literals{visit: func(literal *ast.BasicLit, format bool) {
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			if in("batch", "engine") && flagInText.MatchString(text) && !strings.HasPrefix(text, "--xla_") {
				t.Errorf("%s: %s names a flag; name the setting in backquotes", f.path, literal.Value)
			}
			if !format && settingInText.MatchString(text) {
				t.Errorf("%s: %s names a setting; make it the format of a message of package setting", f.path,
					literal.Value)
			}
		}}, f.ast)
	}
}

// foreignTexts are the files that have no more of an error of another program than its text.
var foreignTexts = []string{"backend/xla/client.go", "data/promptset/parquet/footer.go"}

// parsers are the functions of package strings that find something in a text.
var parsers = []string{"Contains", "Count", "Cut", "CutPrefix", "CutSuffix", "EqualFold", "HasPrefix", "HasSuffix",
	"Index", "LastIndex", "Replace", "ReplaceAll", "Split", "SplitN", "TrimPrefix", "TrimSuffix"}

// Texts are for people: what a program wants to know of an error is a value.
func TestErrorsAreNotParsed(t *testing.T) {
	isText := func(e ast.Expr) bool {
		call, ok := e.(*ast.CallExpr)
		if !ok || len(call.Args) > 0 {
			return false
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		return ok && f.Sel.Name == "Error"
	}
	for _, f := range productFiles() {
		if slices.Contains(foreignTexts, f.path) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || !isText(call.Args[0]) {
				return true
			}
			fun, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, is := fun.X.(*ast.Ident); is && x.Name == "strings" && slices.Contains(parsers, fun.Sel.Name) {
				t.Errorf("%s: strings.%s of an error's text; give the error a type or a field", f.path, fun.Sel.Name)
			}
			return true
		})
	}
}
