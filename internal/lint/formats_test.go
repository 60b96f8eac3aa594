package lint

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// formats are the packages of one file format each. A format stands alone: packages that formats share are below them,
// and the table that lists them is above.
var formats = []string{"data/promptset/arrow", "data/promptset/csv", "data/promptset/document", "data/promptset/jsonl",
	"data/promptset/parquet"}

func TestFormatsStandAlone(t *testing.T) {
	for _, f := range productFilesOf(formats) {
		for _, spec := range f.ast.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			rel, _ := strings.CutPrefix(imported, module+"/")
			if rel == "data/promptset" || slices.Contains(formats, rel) {
				t.Errorf("%s imports %s", f.path, rel)
			}
		}
	}
}

// productFilesOf returns the files of packages that are not tests.
func productFilesOf(dirs []string) []sourceFile {
	return slices.DeleteFunc(slices.Clone(files), func(f sourceFile) bool {
		return f.test || !slices.Contains(dirs, f.dir)
	})
}
