package watch

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/quire/quire/data/storage"
)

// readySuffix ends the name of the file that a trainer writes when the folder of the same name is whole.
const readySuffix = ".ready"

// published returns the names of the weights in a place that are whole: each NAME that has a file NAME.ready, the
// oldest first.
func published(ctx context.Context, place string) (list []string, err error) {
	var files []string
	if storage.IsRemote(place) {
		if files, err = storage.Glob(ctx, storage.Join(place, "*"+readySuffix)); err != nil {
			return nil, err
		}
	} else {
		entries, err := os.ReadDir(place)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			files = append(files, e.Name())
		}
	}
	for _, file := range files {
		if name, ready := strings.CutSuffix(path.Base(file), readySuffix); ready && name != "" {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, func(a, b string) int {
		if older(a, b) {
			return -1
		}
		return 1
	})
	return list, nil
}

// older reports whether a name comes before another one. Digits that follow each other count as a number, so that
// step-9 comes before step-10.
func older(a, b string) bool {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == 0 || y == 0 {
			if a[0] != b[0] {
				return a[0] < b[0]
			}
			a, b = a[1:], b[1:]
			continue
		}
		m, n := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
		switch {
		case len(m) != len(n):
			return len(m) < len(n)
		case m != n:
			return m < n
		case x != y: // 01 comes after 1
			return x < y
		}
		a, b = a[x:], b[y:]
	}
	return len(a) < len(b)
}

// digits returns how many digits a text begins with.
func digits(text string) int {
	return len(text) - len(strings.TrimLeft(text, "0123456789"))
}
