package watch

import (
	"context"
	"os"
	"path"
	"strings"

	"github.com/quire/quire/data/storage"
)

// readySuffix ends the name of the file that a trainer writes when the folder of the same name is whole.
const readySuffix = ".ready"

// newest returns the name of the newest weights in a place that are whole: of those NAME that have a file NAME.ready,
// the last in order of their names. It is empty if there are none.
func newest(ctx context.Context, place string) (newest string, err error) {
	var names []string
	if storage.IsRemote(place) {
		if names, err = storage.Glob(ctx, storage.Join(place, "*"+readySuffix)); err != nil {
			return "", err
		}
	} else {
		entries, err := os.ReadDir(place)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	for _, file := range names {
		name, ready := strings.CutSuffix(path.Base(file), readySuffix)
		if ready && name != "" && older(newest, name) {
			newest = name
		}
	}
	return newest, nil
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
