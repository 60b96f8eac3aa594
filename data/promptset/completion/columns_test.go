package completion

import (
	"fmt"
	"testing"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/schema"
)

// The columns that are named like parameters are the ones that readers take for results next to others.
func TestResultNames(t *testing.T) {
	var names []string
	for c := range Columns() {
		if parameter.Sink(c.Name) != nil {
			names = append(names, c.Name)
		}
	}
	want(t, "names", fmt.Sprint(names), fmt.Sprint(schema.ResultNames))
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}
