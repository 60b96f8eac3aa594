package load

import (
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/internal/testenv"
)

// Adapters come by name, each with its own digest, however many are opened at once; the first that is wrong is named.
func TestOpenAdapters(t *testing.T) {
	model := testenv.Model(t, "llama3")
	place := func(name string) string { return testenv.Path("testdata", "adapters", name) }
	open := func(named ...string) (adapters, error) {
		j := &spec.Job{}
		j.Adapters.Named = named
		return openAdapters(t.Context(), &process.Process{}, j, model)
	}
	list, err := open("d="+place("llama3"), "b="+place("llama3-wide"), "c="+place("llama3-head"), "a="+place("llama3"))
	if err != nil {
		t.Fatal(err)
	}
	defer list.close()
	digests := list.digests()
	if !slices.Equal(list.names(), []string{"a", "b", "c", "d"}) || list[1].Place != place("llama3-wide") ||
		digests["a"] != digests["d"] || digests["a"] == digests["b"] || digests["b"] == digests["c"] {
		t.Errorf("%v, %v", list.names(), digests)
	}
	for want, named := range map[string][]string{
		"there are two adapters called a": {"a=" + place("llama3"), "b=" + place("llama3"), "a=elsewhere"},
		"b: adapter ":                     {"a=" + place("llama3"), "c=" + t.TempDir(), "b=" + t.TempDir()},
	} {
		if _, err := open(named...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", named, err, want)
		}
	}
}
