package engine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quire/quire/internal/testenv"
)

// Every error that is exported stands in the tables of docs/pages.md.
func TestErrorsAreInTheDocs(t *testing.T) {
	doc, err := os.ReadFile(testenv.Path("docs", "pages.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(doc), "\n## Errors\n")
	for _, dir := range []string{"engine", "engine/contexts", "engine/core", "engine/masks", "engine/prefixes",
		"seqtable", "pagetable"} {
		files, err := filepath.Glob(filepath.Join(testenv.Path(dir), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range parsed.Decls {
				general, ok := decl.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range general.Specs {
					var names []*ast.Ident
					switch s := spec.(type) {
					case *ast.ValueSpec:
						names = s.Names
					case *ast.TypeSpec:
						names = []*ast.Ident{s.Name}
					}
					for _, name := range names {
						if !strings.HasPrefix(name.Name, "Err") {
							continue
						}
						found++
						if !regexp.MustCompile(`\n\|[^|]*\b` + name.Name + `\b[^|]*\|`).MatchString(tables) {
							t.Errorf("%s.%s is not in docs/pages.md", dir, name.Name)
						}
					}
				}
			}
		}
		if found == 0 {
			t.Errorf("no errors were found in %s", dir)
		}
	}
}
