package lint

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const maxColumns = 120 // a tab counts 4

// columns is how wide a line is.
func columns(line string) int { return utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) }

// isCode reports whether a file that is not Go's contains code: C, Python, or shell by its name or its first line.
func isCode(name string, src []byte) bool {
	if slices.Contains([]string{".c", ".cpp", ".h", ".py", ".sh", ".sbatch"}, path.Ext(name)) {
		return true
	}
	first, _, _ := bytes.Cut(src, []byte("\n"))
	return scriptFirst.Match(first)
}

var scriptFirst = regexp.MustCompile(`^#!.*\b(ba|da)?sh$|^#!.*\bpython3?$`)

// skipped are folders of no files of ours: what is fetched and built, and fixtures.
func skipped(name string) bool {
	return name != ".ci" && strings.HasPrefix(name, ".") || strings.HasPrefix(name, "__") ||
		slices.Contains([]string{"testdata", "shared", "out", "bin", "node_modules"}, name)
}

type textFile struct {
	path string // from the root, with slashes
	src  []byte
}

// readTexts reads the files of the repository that want takes by name and content.
func readTexts(t *testing.T, want func(name string, src []byte) bool) (all []textFile) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != root && (skipped(d.Name()) || foreign(p)):
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		if info, err := d.Info(); err != nil || info.Size() > 1<<20 {
			return err // no text by hand is that large
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if name := filepath.ToSlash(rel); err == nil && want(name, src) {
			all = append(all, textFile{name, src})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// foreign reports whether a folder is a Python environment, which may have any name.
func foreign(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "pyvenv.cfg"))
	return err == nil
}

// C, Python and shell keep the rules of Go's files: lines of 120 columns, files below 500 lines.
func TestCodeBesideGo(t *testing.T) {
	files := readTexts(t, isCode)
	examples := []string{".ci/run", "backend/xla/cpukernel/gemm.c", "scripts/fuzz.sh", "bench/limits.py"}
	for _, want := range examples {
		if !slices.ContainsFunc(files, func(f textFile) bool { return f.path == want }) {
			t.Errorf("%s is not among the files that are looked at", want)
		}
	}
	for _, f := range files {
		if n := bytes.Count(f.src, []byte("\n")); n >= maxLines {
			t.Errorf("%s has %d lines; split it below %d", f.path, n, maxLines)
		}
		for i, line := range strings.Split(string(f.src), "\n") {
			if n := columns(line); n > maxColumns {
				t.Errorf("%s:%d has %d columns; break it by column %d", f.path, i+1, n, maxColumns)
			}
		}
	}
}

// Prose of pages ends by column 120 as well. Tables, code, headings, definitions of links and lines of one word, as an
// address may be, can't be broken.
func TestProseOfPages(t *testing.T) {
	pages := readTexts(t, func(name string, _ []byte) bool { return path.Ext(name) == ".md" })
	for _, f := range pages {
		for _, line := range longProse(string(f.src)) {
			t.Errorf("%s:%d has more than %d columns; break it", f.path, line, maxColumns)
		}
	}
}

var (
	fence        = regexp.MustCompile("^\\s*(```|~~~)")
	unbreakable  = regexp.MustCompile(`^(\||#|\[[^\]]+\]: |<!--)|^\s*([-*>]|\d+\.)?\s*\S+$`)
	indentedCode = regexp.MustCompile(`^(    |\t)`)
)

// longProse returns the numbers of the lines of prose that are too long.
func longProse(page string) (lines []int) {
	code, list := false, false
	for i, line := range strings.Split(page, "\n") {
		if fence.MatchString(line) {
			code = !code
		}
		// What is indented is code, but behind an item of a list more of it.
		indented := indentedCode.MatchString(line)
		if !indented && line != "" {
			list = listItem.MatchString(line) || list && strings.HasPrefix(line, " ")
		}
		if code || indented && !list || unbreakable.MatchString(strings.TrimLeft(line, " ")) {
			continue
		}
		if columns(line) > maxColumns {
			lines = append(lines, i+1)
		}
	}
	return lines
}

var listItem = regexp.MustCompile(`^\s*([-*+]|\d+\.) `)

func TestLongProse(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for _, c := range []struct {
		page string
		want []int
	}{
		{long, []int{1}},
		{"short\n\n- " + long + "\n\n      " + long, []int{3, 5}},
		{"1. item\n   " + long, []int{2}},
		{"| " + long + "|\n# " + long + "\n[name]: " + long, nil},
		{"```\n" + long + "\n```\n" + long, []int{4}},
		{"text:\n\n    " + long + "\n\n\t" + long, nil},
		{"- " + strings.Repeat("x", 200) + "\n" + strings.Repeat("x", 200), nil},
	} {
		if got := longProse(c.page); !slices.Equal(got, c.want) {
			t.Errorf("lines %v of %q are too long, want %v", got, c.page, c.want)
		}
	}
}
