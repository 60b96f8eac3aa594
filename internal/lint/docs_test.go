package lint

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	linkRule    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	headingRule = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^\w\- ]`)
	testRule    = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
	nameRule    = regexp.MustCompile("`([a-z]\\w*\\.[A-Za-z]\\w*(?:\\.\\w+)?)`")
	scriptRule  = regexp.MustCompile("`(?:testdata/script/)?([a-z]+\\.txtar)`")
)

// readPages reads the pages of documentation by their paths from the root.
func readPages(t *testing.T) map[string]string {
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "bench/*.md", "scripts/*/*.md"} {
		names, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(filepath.Join("..", ".."), name)
			if err != nil {
				t.Fatal(err)
			}
			pages[filepath.ToSlash(rel)] = string(text)
		}
	}
	return pages
}

// Every link within the repository leads to a file that is there, and to a heading that it has.
func TestLinksOfPages(t *testing.T) {
	pages := readPages(t)
	for page, text := range pages {
		for _, link := range linkRule.FindAllStringSubmatch(text, -1) {
			target, anchor := page, link[2]
			if strings.Contains(link[1], "://") {
				continue
			}
			if link[1] != "" {
				target = path.Join(path.Dir(page), link[1])
			}
			if _, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s, which is not there", page, target)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(pages[target]), anchor) {
				t.Errorf("%s links to %s#%s, but that page has no such heading", page, target, anchor)
			}
		}
	}
}

// anchors lists the names by which links reach the headings of a page.
func anchors(page string) (names []string) {
	for _, heading := range headingRule.FindAllStringSubmatch(page, -1) {
		name := notInAnchor.ReplaceAllString(strings.ToLower(heading[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// Every test and every script that a page names is there. "TestKilled" names all tests that begin so.
func TestPagesNameTests(t *testing.T) {
	var tests []string
	for _, f := range files {
		if !f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok && function.Recv == nil {
				tests = append(tests, function.Name.Name)
			}
		}
	}
	for page, text := range readPages(t) {
		for _, name := range testRule.FindAllString(text, -1) {
			if !slices.ContainsFunc(tests, func(test string) bool { return strings.HasPrefix(test, name) }) {
				t.Errorf("%s names %s, but there is no such test", page, name)
			}
		}
		for _, script := range scriptRule.FindAllStringSubmatch(text, -1) {
			file := filepath.Join("..", "..", "cmd", "sample", "testdata", "script", script[1])
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s names the script %s, but there is no %s", page, script[1], file)
			}
		}
	}
}

// docs/seeds.md names what is in the code: `package.Name`, or `package.Type.Name` for methods and fields.
func TestSeedsNameCode(t *testing.T) {
	declared := map[string]bool{}
	for _, f := range files {
		declare := func(name string) { declared[path.Base(f.dir)+"."+name] = true }
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.FuncDecl:
				declare(functionName(x))
			case *ast.TypeSpec:
				declare(x.Name.Name)
				if of, ok := x.Type.(*ast.StructType); ok {
					for _, field := range of.Fields.List {
						for _, name := range field.Names {
							declare(x.Name.Name + "." + name.Name)
						}
					}
				}
			case *ast.ValueSpec:
				declare(x.Names[0].Name)
			}
			return true
		})
	}
	for _, name := range nameRule.FindAllStringSubmatch(readPages(t)["docs/seeds.md"], -1) {
		if !declared[name[1]] && path.Ext(name[1]) != ".txtar" {
			t.Errorf("docs/seeds.md names %s, which is not there", name[1])
		}
	}
}

// docs/architecture.md lists each package.
func TestPackagesAreListed(t *testing.T) {
	page := readPages(t)["docs/architecture.md"]
	listed := map[string]bool{".": true}
	for _, f := range files {
		if !listed[f.dir] && !strings.Contains(page, "`"+f.dir+"`") {
			t.Errorf("docs/architecture.md, Packages, does not list %s", f.dir)
		}
		listed[f.dir] = true
	}
}

// README is short: what is more than a beginner needs stands in docs.
func TestReadmeIsShort(t *testing.T) {
	if lines := strings.Count(readPages(t)["README.md"], "\n"); lines >= 150 {
		t.Errorf("README.md has %d lines; keep it below 150, and move the rest to docs", lines)
	}
}
