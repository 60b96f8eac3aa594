package lint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// smallPackage is the number of files up to which a package reads as one: it has few arrows, so percentages are
// meaningless.
const smallPackage = 5

// arrowsUp measures how tangled each package is: the percentage of the arrows between its files (one uses a name that
// another declares) that run back, with the files in the order that has few such arrows. Files of other platforms do
// not count.
func arrowsUp() map[string]int {
	byDir := map[string][]*ast.File{}
	for _, f := range productFiles() {
		ok, err := build.Default.MatchFile(filepath.Join("..", "..", f.dir), path.Base(f.path))
		if err != nil {
			panic(err)
		}
		if ok {
			byDir[f.dir] = append(byDir[f.dir], f.ast)
		}
	}
	figures, imports := map[string]int{}, compiledImports()
	for dir, group := range byDir {
		if len(group) <= smallPackage {
			continue
		}
		arrows := fileArrows(path.Join(module, dir), group, imports)
		total := 0
		for _, to := range arrows {
			total += len(to)
		}
		if total > 0 {
			figures[dir] = (100*backArrows(arrows, len(group)) + total/2) / total
		}
	}
	return figures
}

// compiledImports imports the types of packages from what the compiler exported of them, which is in Go's build cache.
func compiledImports() types.Importer {
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", "./...")
	list.Dir, list.Stderr = filepath.Join("..", ".."), os.Stderr
	out, err := list.Output()
	if err != nil {
		panic(fmt.Errorf("go list: %w", err))
	}
	exported := map[string]string{}
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := packages.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			panic(err)
		}
		exported[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(fileSet, "gc", func(name string) (io.ReadCloser, error) {
		if exported[name] == "" {
			return nil, errors.New("the compiler exported nothing of it")
		}
		return os.Open(exported[name])
	})
}

// fileArrows returns for each file of a package the files that declare names it uses: names of the package and of
// methods, but not of fields.
func fileArrows(name string, group []*ast.File, imports types.Importer) []map[int]bool {
	uses := map[*ast.Ident]types.Object{}
	checker := types.Config{Importer: imports, FakeImportC: true}
	pkg, err := checker.Check(name, fileSet, group, &types.Info{Uses: uses})
	if err != nil {
		panic(err)
	}
	arrows := make([]map[int]bool, len(group))
	places := map[*token.File]int{}
	for i, f := range group {
		arrows[i], places[fileSet.File(f.Package)] = map[int]bool{}, i
	}
	for id, object := range uses {
		fn, isFunc := object.(*types.Func)
		if object.Pkg() != pkg || !isFunc && object.Parent() != pkg.Scope() {
			continue
		}
		if isFunc { // the declaration, if the object is an instance of a generic one
			object = fn.Origin()
		}
		from, to := places[fileSet.File(id.Pos())], places[fileSet.File(object.Pos())]
		if from != to {
			arrows[from][to] = true
		}
	}
	return arrows
}

// backArrows orders n files by the greedy algorithm of Eades, Lin and Smyth for feedback arc sets, and counts the
// arrows that run back.
func backArrows(arrows []map[int]bool, n int) int {
	left := map[int]bool{}
	for i := range n {
		left[i] = true
	}
	degrees := func(i int) (in, out int) {
		for j := range left {
			if arrows[j][i] {
				in++
			}
			if arrows[i][j] {
				out++
			}
		}
		return in, out
	}
	var first, last []int
	for len(left) > 0 {
		moved := false
		for _, i := range slices.Sorted(maps.Keys(left)) {
			if in, out := degrees(i); out == 0 {
				last, moved = append(last, i), true
				delete(left, i)
			} else if in == 0 {
				first, moved = append(first, i), true
				delete(left, i)
			}
		}
		if !moved {
			next := slices.MaxFunc(slices.Sorted(maps.Keys(left)), func(a, b int) int {
				inA, outA := degrees(a)
				inB, outB := degrees(b)
				return cmp.Compare(outA-inA, outB-inB)
			})
			first = append(first, next)
			delete(left, next)
		}
	}
	slices.Reverse(last)
	position := make([]int, n)
	for at, i := range append(first, last...) {
		position[i] = at
	}
	back := 0
	for from, to := range arrows {
		for j := range to {
			if position[j] < position[from] {
				back++
			}
		}
	}
	return back
}

func TestBackArrows(t *testing.T) {
	chain := []map[int]bool{{1: true}, {2: true}, {}}
	circle := []map[int]bool{{1: true}, {2: true}, {0: true}}
	for _, c := range []struct {
		arrows []map[int]bool
		want   int
	}{{chain, 0}, {circle, 1}} {
		if got := backArrows(c.arrows, len(c.arrows)); got != c.want {
			t.Errorf("%v has %d arrows back, want %d", c.arrows, got, c.want)
		}
	}
}

// A method belongs to the file of its receiver's method, and a local variable to no other file.
func TestFileArrows(t *testing.T) {
	var group []*ast.File
	for i, text := range []string{
		"package p; type a[T any] struct{}; func (a[T]) close() {}; func helper() {}",
		"package p; type b struct{ helper int }; func (b) close() {}",
		"package p; func f(y b) { y.close(); helper := y.helper; _ = helper }",
		"package p; func g(x a[int], y interface{ close() }) { x.close(); y.close() }",
	} {
		f, err := parser.ParseFile(fileSet, fmt.Sprintf("%d.go", i), text, 0)
		if err != nil {
			t.Fatal(err)
		}
		group = append(group, f)
	}
	want := []map[int]bool{{}, {}, {1: true}, {0: true}}
	if got := fileArrows("p", group, nil); !reflect.DeepEqual(got, want) {
		t.Errorf("arrows %v, want %v", got, want)
	}
}
