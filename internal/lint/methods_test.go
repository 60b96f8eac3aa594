package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
)

type methods struct {
	count int
	files map[string]bool
}

// interfaces are interfaces of dependencies that force methods on the types that implement them. A method that such an
// interface requires is not ours to remove, so the bounds count the others only.
var interfaces = map[string]reflect.Type{
	"compute.Backend":    reflect.TypeFor[compute.Backend](),
	"compute.Buffer":     reflect.TypeFor[compute.Buffer](),
	"compute.Builder":    reflect.TypeFor[compute.Builder](),
	"compute.Executable": reflect.TypeFor[compute.Executable](),
	"compute.Function":   reflect.TypeFor[compute.Function](),
}

// forcedMethods returns the methods that interfaces of dependencies require, as type.method. A package states that a
// type implements an interface by "var _ I = (*T)(nil)", which the compiler checks.
func forcedMethods() map[string]bool {
	forced := map[string]bool{}
	for _, f := range productFiles() {
		for _, decl := range f.ast.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok || general.Tok != token.VAR {
				continue
			}
			for _, spec := range general.Specs {
				name, required := implementation(spec.(*ast.ValueSpec))
				if required == nil {
					continue
				}
				for method := range required.Methods() {
					forced[f.dir+"."+name+"."+method.Name] = true
				}
			}
		}
	}
	return forced
}

// implementation reads "_ I = (*T)(nil)" and returns T, and I if it is one of interfaces.
func implementation(spec *ast.ValueSpec) (name string, required reflect.Type) {
	of, ok := spec.Type.(*ast.SelectorExpr)
	if !ok || len(spec.Names) != 1 || spec.Names[0].Name != "_" || len(spec.Values) != 1 {
		return "", nil
	}
	pkg, ok := of.X.(*ast.Ident)
	if !ok {
		return "", nil
	}
	conversion, ok := spec.Values[0].(*ast.CallExpr)
	if !ok {
		return "", nil
	}
	pointer, ok := ast.Unparen(conversion.Fun).(*ast.StarExpr)
	if !ok {
		return "", nil
	}
	implementer, ok := pointer.X.(*ast.Ident)
	if !ok {
		return "", nil
	}
	return implementer.Name, interfaces[pkg.Name+"."+of.Sel.Name]
}

// methodCounts measures the methods of each type of the product that no interface of a dependency requires.
func methodCounts(figure func(methods) int) map[string]int {
	types, forced := map[string]methods{}, forcedMethods()
	for _, f := range productFiles() {
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || forced[f.dir+"."+functionName(fn)] {
				continue
			}
			name, _, _ := strings.Cut(functionName(fn), ".")
			m := types[f.dir+"."+name]
			if m.files == nil {
				m.files = map[string]bool{}
			}
			m.count++
			m.files[f.path] = true
			types[f.dir+"."+name] = m
		}
	}
	figures := map[string]int{}
	for name, m := range types {
		figures[name] = figure(m)
	}
	return figures
}

func TestForcedMethods(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", `package p
		var _ compute.Function = (*function)(nil)
		var _ io.Reader = (*file)(nil)
		var _, other = 1, 2`, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, decl := range parsed.Decls {
		for _, spec := range decl.(*ast.GenDecl).Specs {
			if name, required := implementation(spec.(*ast.ValueSpec)); required != nil {
				names = append(names, name)
			}
		}
	}
	if !slices.Equal(names, []string{"function"}) {
		t.Errorf("types with an interface of a dependency are %q, want function", names)
	}
	forced := forcedMethods()
	if own := "backend/xla.Backend.Donating"; forced[own] {
		t.Errorf("%s counts as a method that compute.Backend requires", own)
	}
	if required := "backend/xla.Backend.NumDevices"; !forced[required] {
		t.Errorf("%s does not count as a method that compute.Backend requires", required)
	}
}
