package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A rule measures the tree and bounds the figures.
type rule struct {
	name    string
	bound   int
	meaning string
	measure func() map[string]int // the figure of each subject: a type, a package or a page
}

var rules = []rule{
	{"methods", 30, "methods of a type that no interface of a dependency requires",
		func() map[string]int { return methodCounts(func(m methods) int { return m.count }) }},
	{"method-files", 5, "files that declare such methods of a type",
		func() map[string]int { return methodCounts(func(m methods) int { return len(m.files) }) }},
	{"fields", 20, "fields of a struct that has unexported ones", fieldCounts},
	{"files", 25, "files a package, without tests", fileCounts},
	{"up", 15, "percent of the arrows between a package's files that run against the best order of them", arrowsUp},
	{"platforms", 0, "literals of a platform's name outside backend", platformLiterals},
	{"tags", 0, "fields or parameters named tag of type any", anyTags},
	{"phrases", 0, "phrases on a page that read as translated (see phrases)", phraseCounts},
}

func TestBounds(t *testing.T) {
	for _, r := range rules {
		figures := r.measure()
		for _, subject := range slices.Sorted(maps.Keys(figures)) {
			if figure := figures[subject]; figure > r.bound {
				t.Errorf("%s: %d %s; the bound is %d (%s)", subject, figure, r.meaning, r.bound, r.name)
			}
		}
	}
}

// productFiles returns the files that are neither tests nor generated.
func productFiles() []sourceFile {
	return slices.DeleteFunc(slices.Clone(files), func(f sourceFile) bool { return f.test || ast.IsGenerated(f.ast) })
}

// fieldCounts counts the fields of structs, but not of records and configurations: all their fields are exported.
func fieldCounts() map[string]int {
	figures := map[string]int{}
	for _, f := range productFiles() {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			structure, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			count, private := 0, false
			for _, field := range structure.Fields.List {
				count += max(1, len(field.Names))
				for _, name := range field.Names {
					private = private || !name.IsExported()
				}
			}
			if private {
				figures[f.dir+"."+spec.Name.Name] = count
			}
			return true
		})
	}
	return figures
}

func fileCounts() map[string]int {
	figures := map[string]int{}
	for _, f := range productFiles() {
		figures[f.dir]++
	}
	return figures
}

// platformLiterals counts strings that are a platform's name, which the packages below backend.Traits need alone.
func platformLiterals() map[string]int {
	figures := map[string]int{}
	for _, f := range productFiles() {
		if strings.HasPrefix(f.dir, "backend") ||
			strings.HasPrefix(f.dir, "internal") || strings.HasPrefix(f.dir, "scripts") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				if n.Kind == token.STRING && err == nil && platformName.MatchString(text) {
					figures[f.dir]++
				}
			case *ast.InterfaceType:
				if len(n.Methods.List) == 1 && len(n.Methods.List[0].Names) == 1 &&
					n.Methods.List[0].Names[0].Name == "Platform" {
					figures[f.dir]++
				}
			}
			return true
		})
	}
	return figures
}

var platformName = regexp.MustCompile(`^(xla:)?(cpu|tpu|gpu|cuda|rocm)$`)

// anyTags counts fields and parameters that hold a caller's tag as any, whose type the caller must assert.
func anyTags() map[string]int {
	figures := map[string]int{}
	for _, f := range productFiles() {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok {
				return true
			}
			kind, ok := field.Type.(*ast.Ident)
			if !ok || kind.Name != "any" {
				return true
			}
			for _, name := range field.Names {
				if strings.EqualFold(name.Name, "tag") {
					figures[f.dir]++
				}
			}
			return true
		})
	}
	return figures
}

// phrases are idioms of the pages that read as translated, with what to write.
var phrases = []struct {
	pattern *regexp.Regexp
	write   string
}{
	{regexp.MustCompile(`(?i)\b(says|tells) (that|whether)\b`), "reports whether, states that"},
	{regexp.MustCompile(`(?i)\b(those|that) of\b`), "repeat the noun"},
	{regexp.MustCompile(`(?i)\bof (which|whose|whom)\b`), "two sentences"},
	{regexp.MustCompile(`(?i)\b(behind|beside|anew|begun)\b`), "after, alongside, again, started"},
	{regexp.MustCompile(`(?i)\b(goes|go|went|gone) on\b`), "continues"},
	{regexp.MustCompile(`(?i)\b(draws?|drew|drawn)\b`), "generate"},
	{regexp.MustCompile(`(?i)\b(mend(s|ed)?|whoever|whatever|wherever)\b`), "fix; name the subject"},
	{regexp.MustCompile(`(^|[.;:] )Where\b|, where\b`), "if, when"},
	{regexp.MustCompile(`(?i)\bis (none|no \w+) of\b`), "say what it is"},
	{regexp.MustCompile(`(?i)\ba (line|page|call|part|row) (each|more)\b`), "one per line, one more page"},
}

// phraseCounts counts the phrases in the prose of each page for readers. Code and the tables of benchmarks count, too.
func phraseCounts() map[string]int {
	figures := map[string]int{}
	for _, pattern := range []string{"*.md", "docs/*.md", "bench/*.md"} {
		names, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern)))
		if err != nil {
			panic(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				panic(err)
			}
			rel, _ := filepath.Rel(filepath.Join("..", ".."), name)
			for _, p := range phrases {
				if found := len(p.pattern.FindAll(text, -1)); found > 0 {
					figures[filepath.ToSlash(rel)] += found
				}
			}
		}
	}
	return figures
}
