package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module      = "github.com/quire/quire"
	graphImport = "github.com/gomlx/gomlx/core/graph"
	maxLines    = 500
	maxFunction = 80 // lines, from func to the closing brace, above which a function is listed
)

// tiers lists the packages by their height. A package imports only packages of lower tiers, and of its own tier if
// sameTier allows it. Folders below a listed one belong to it.
var tiers = map[string]int{
	"cmd":    6,
	"batch":  5,
	"engine": 4,
	// The scheduler knows the device as an interface: nothing of graphs, and of the engine no other package.
	"engine/schedule": 1,
	// The model of the device, for tests, has the tables' plain-Go twins.
	"engine/schedule/model": 4,

	"attention": graphTier, "models/decoder": graphTier, "models/recurrence": graphTier, "ops": graphTier,
	"pagetable": graphTier, "seqtable": graphTier, "tokenqueue": graphTier,

	"ops/collective": basisTier, "ops/control": basisTier, "ops/scan": basisTier, "ops/tree": basisTier,

	"backend": traitTier, "backend/xla": 1,

	// How messages name settings, which everything may do.
	"data/setting": traitTier,

	"backend/nested": hostTier, "backend/setup": hostTier, "backend/xla/cpukernel": hostTier,
	"backend/xla/mosaic": hostTier, "backend/xla/triton": hostTier,

	// What a job keeps, and what an engine knows without the device.
	"batch/jobstate": hostTier, "batch/journal": hostTier, "batch/queue": hostTier, "batch/telemetry": hostTier,
	"engine/lockstep": hostTier, "engine/prefix": hostTier,

	"bench": hostTier, "data/promptset": hostTier, "models": hostTier, "scripts/kernels": hostTier,
	"text/chat": hostTier, "text/tokenizer": hostTier,

	"models/gguf": readerTier,

	"backend/blocks": fileTier, "backend/chip": fileTier, "data/parameter": fileTier, "data/storage": fileTier,
	"data/tally": fileTier, "data/vfs": fileTier, "deploy": fileTier, "models/internal/mapped": fileTier,
	"text/grammar": fileTier,
}

const (
	traitTier  = -3 // what platforms are and how messages name settings, which everything may ask
	fileTier   = -2 // what host packages may share
	readerTier = -1 // readers of files that host packages may share
	hostTier   = 0  // knows nothing of graphs, nor of each other
	basisTier  = 2
	graphTier  = 3
)

var sameTier = []int{basisTier, graphTier}

// forbidden are imports that the tiers would allow: files and fetching are the command's business.
var forbidden = map[string][]string{
	"engine": {"text/chat", "data/promptset", "backend/setup"},
}

type sourceFile struct {
	path string // from the root, with slashes
	dir  string
	src  []byte
	ast  *ast.File
	test bool
}

var files = readAll()

// fileSet has the positions of all files.
var fileSet = token.NewFileSet()

// readAll reads all Go files of the repository.
func readAll() []sourceFile {
	var all []sourceFile
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && p != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "shared" ||
			name == "out" || name == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(fileSet, p, src, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		rel = filepath.ToSlash(rel)
		all = append(all, sourceFile{rel, path.Dir(rel), src, parsed, strings.HasSuffix(name, "_test.go")})
		return err
	})
	if err != nil {
		panic(err)
	}
	return all
}

func TestFormatted(t *testing.T) {
	for _, f := range files {
		if want, err := format.Source(f.src); err != nil || !bytes.Equal(want, f.src) {
			t.Errorf("%s is not as gofmt writes it (%v)", f.path, err)
		}
	}
}

func TestFileLength(t *testing.T) {
	for _, f := range files {
		if n := bytes.Count(f.src, []byte("\n")); n >= maxLines && !ast.IsGenerated(f.ast) {
			t.Errorf("%s has %d lines; split it below %d", f.path, n, maxLines)
		}
	}
}

// Long functions are listed, with -v, and do not fail: a function is as long as its idea.
func TestFunctionLength(t *testing.T) {
	for _, f := range files {
		if f.test || ast.IsGenerated(f.ast) {
			continue
		}
		for _, declaration := range f.ast.Decls {
			fn, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := f.dir + "." + functionName(fn)
			// Positions are offsets into the file, plus where the file begins.
			from, to := int(fn.Pos()-f.ast.FileStart), int(fn.End()-f.ast.FileStart)
			lines := bytes.Count(f.src[from:to], []byte("\n")) + 1
			if lines > maxFunction {
				t.Logf("%s: %s has %d lines", f.path, name, lines)
			}
		}
	}
}

// functionName is a function's name, with its receiver's type for a method.
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	of := fn.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}

func TestPackagesDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range files {
		if !f.test && f.dir != "." { // the root holds deps.go only
			documented[f.dir] = documented[f.dir] || f.ast.Doc != nil && len(f.ast.Doc.Text()) > 0
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no doc comment that says its job", dir)
		}
	}
}

func TestPackageNames(t *testing.T) {
	for _, f := range files {
		if slices.Contains([]string{"util", "utils", "common", "helpers", "helper", "misc", "shared"},
			f.ast.Name.Name) {
			t.Errorf("%s: package %s is named after nothing it does", f.path, f.ast.Name.Name)
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	for _, f := range files {
		if f.test || strings.HasPrefix(f.dir, "internal/") || f.dir == "." || strings.HasPrefix(f.dir, "scripts") {
			continue
		}
		from := home(f.dir)
		if from == "" {
			t.Errorf("%s: package %s stands in no tier; give it one in internal/lint", f.path, f.dir)
			continue
		}
		for _, spec := range f.ast.Imports {
			if problem := importProblem(from, spec); problem != "" {
				t.Errorf("%s: %s", f.path, problem)
			}
		}
	}
}

// importProblem returns what is wrong with an import by the package from, "" if nothing is.
func importProblem(from string, spec *ast.ImportSpec) string {
	imported, _ := strconv.Unquote(spec.Path.Value)
	if spec.Name != nil && spec.Name.Name == "." && imported != graphImport {
		return fmt.Sprintf("dot-import of %s: only the graph package is imported so", imported)
	}
	if imported == graphImport && (tiers[from] == hostTier || from == "cmd" || from == "engine/schedule") {
		return fmt.Sprintf("%s knows nothing of graphs, but imports %s", from, imported)
	}
	rel, ours := strings.CutPrefix(imported, module+"/")
	if !ours || strings.HasPrefix(rel, "internal/") {
		return ""
	}
	to := home(rel)
	switch {
	case to == from:
		return ""
	case to == "":
		return fmt.Sprintf("imports %s, which stands in no tier", rel)
	case slices.Contains(forbidden[from], to):
		return fmt.Sprintf("%s must not import %s", from, to)
	case tiers[to] < tiers[from] || tiers[to] == tiers[from] && slices.Contains(sameTier, tiers[from]):
		return ""
	}
	return fmt.Sprintf("%s imports %s, which does not stand below it", from, to)
}

// home returns the listed package that dir belongs to: itself or the nearest one above.
func home(dir string) string {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, ok := tiers[dir]; ok {
			return dir
		}
	}
	return ""
}

// The rules themselves refuse what they should.
func TestRulesRefuse(t *testing.T) {
	for _, c := range []struct{ from, imported, alias string }{
		{"data/promptset", graphImport, ""},
		{"cmd", graphImport, "."},
		{"data/promptset", module + "/text/tokenizer", ""},
		{"pagetable", module + "/engine", ""},
		{"backend/xla", module + "/ops/control", ""},
		{"engine", module + "/data/promptset", ""},
		{"engine", module + "/cmd/sample", ""},
		{"engine", module + "/nowhere", ""},
		{"engine", "fmt", "."},
		{"engine/schedule", graphImport, ""},
		{"engine/schedule", module + "/engine", ""},
		{"engine/schedule", module + "/ops/sampling", ""},
		{"engine/schedule", module + "/ops/tree", ""},
	} {
		spec := &ast.ImportSpec{Path: &ast.BasicLit{Value: strconv.Quote(c.imported)}}
		if c.alias != "" {
			spec.Name = ast.NewIdent(c.alias)
		}
		if importProblem(c.from, spec) == "" {
			t.Errorf("%s may import %s %s", c.from, c.alias, c.imported)
		}
	}
}

// Lines end by column 120, a tab counting 4. What stands within quotes of several lines is text, and has its own width.
func TestLineLength(t *testing.T) {
	for _, f := range files {
		text := rawText(f)
		for i, line := range strings.Split(string(f.src), "\n") {
			if n := columns(line); n > maxColumns && !text[i+1] && !ast.IsGenerated(f.ast) {
				t.Errorf("%s:%d has %d columns; break it by column %d", f.path, i+1, n, maxColumns)
			}
		}
	}
}

// rawText finds the lines that a literal in backquotes stands on.
func rawText(f sourceFile) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.HasPrefix(lit.Value, "`") {
			first := 1 + bytes.Count(f.src[:lit.Pos()-f.ast.FileStart], []byte("\n"))
			for i := range 1 + strings.Count(lit.Value, "\n") {
				lines[first+i] = true
			}
		}
		return true
	})
	return lines
}
