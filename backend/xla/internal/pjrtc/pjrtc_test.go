package pjrtc

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// headerNames are the functions of the header that comes with go-xla, in the table's order.
func headerNames(t *testing.T) (names []string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "github.com/gomlx/go-xla").Output()
	if err != nil {
		t.Fatal(err)
	}
	version, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if version != pinned {
		t.Errorf("go-xla is %s, this package knows %s", version, pinned)
	}
	header, err := os.ReadFile(filepath.Join(dir, "pjrt", "pjrt_c_api.h"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^ +_PJRT_API_STRUCT_FIELD\((\w+)\)`).FindAllStringSubmatch(string(header),
		-1) {
		names = append(names, m[1])
	}
	return names
}

// The places in the table of functions are those of the header that comes with go-xla.
func TestTableMatchesTheHeader(t *testing.T) {
	names := headerNames(t)
	for _, f := range needed {
		if f.index >= len(names) || names[f.index] != f.name {
			t.Errorf("%s is not at %d in the header", f.name, f.index)
		}
	}
	source, err := os.ReadFile("pjrtc.go")
	if err != nil {
		t.Fatal(err)
	}
	places := regexp.MustCompile(`(?m)^\t([A-Z_]+) = (\d+),$`).FindAllStringSubmatch(string(source), -1)
	if len(places) != 10 {
		t.Fatalf("found %d places in pjrtc.go, want 10", len(places))
	}
	fold := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
	for _, p := range places {
		i := slices.IndexFunc(names, func(name string) bool { return fold(name) == "pjrt"+fold(p[1]) })
		if want := p[2]; i < 0 || want != strconv.Itoa(i) {
			t.Errorf("%s is at %d in the header, %s here", p[1], i, want)
		}
	}
}

func TestAnotherGoXLAIsAnError(t *testing.T) {
	type inner struct{ c *int }
	var v struct {
		client *inner
		api    int
	}
	for _, path := range [][]string{{"renamed"}, {"client", "c"}, {"api"}} {
		_, err := pointer(&v, path...)
		if err == nil {
			t.Errorf("%v: no error", path)
		}
		if path[0] != "client" && !strings.Contains(err.Error(), "go-xla "+pinned) {
			t.Errorf("%v: %v does not name the version", path, err)
		}
	}
	n := 7
	v.client = &inner{&n}
	if p, err := pointer(&v, "client", "c"); err != nil || p != unsafe.Pointer(&n) {
		t.Errorf("got %v, %v", p, err)
	}
	if _, err := field(&v, reflect.Bool, "api"); err == nil {
		t.Error("an int was taken for a bool")
	}
}

// A plugin whose table ends before a function does not have it.
func TestShortTable(t *testing.T) {
	table := struct {
		size, extension       uintptr
		versionSize, versionX uintptr
		major, minor          int32
		functions             [60]uintptr
	}{major: 1, minor: 5}
	for i := range table.functions {
		table.functions[i] = 1
	}
	owner := struct{ api unsafe.Pointer }{unsafe.Pointer(&table)}
	typed := struct{ api *byte }{(*byte)(owner.api)}
	for _, c := range []struct {
		functions uintptr
		index     int
		ok        bool
	}{{48, 48, false}, {49, 48, true}, {49, 49, false}, {1, 48, false}, {60, 56, true}} {
		table.size = unsafe.Offsetof(table.functions) + c.functions*unsafe.Sizeof(uintptr(0))
		_, err := api(&typed, c.index, "it", "api")
		if (err == nil) != c.ok {
			t.Errorf("%d functions, index %d: %v", c.functions, c.index, err)
		}
		if err != nil && !strings.Contains(err.Error(), "PJRT API 1.5") {
			t.Errorf("%v does not name the version", err)
		}
	}
}
