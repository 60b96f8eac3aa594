package storage

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func all(string, fs.DirEntry) bool { return true }

// For any links between folders, including cycles, each reachable file is found once: if no link leads to it, under
// its own path.
func TestWalkFindsEachFileOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "walk")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			t.Fatal(err)
		}
		root := filepath.Join(dir, "root")
		folders := []string{root, filepath.Join(dir, "beside")}
		for _, below := range rapid.SliceOfN(rapid.StringMatching(`(root|beside)(/[abc]){1,2}`), 0, 6).Draw(t, "folders") {
			folders = append(folders, filepath.Join(dir, below))
		}
		for i, folder := range folders {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "f"+string(rune('0'+i))), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(0, 4).Draw(t, "links") {
			in := rapid.SampledFrom(folders).Draw(t, "in")
			name := rapid.SampledFrom([]string{"a", "l", "z"}).Draw(t, "name")
			_ = os.Symlink(rapid.SampledFrom(folders).Draw(t, "to"), filepath.Join(in, name)) // the name may be taken
		}
		want := map[string]bool{} // without links
		queue, entered := []string{root}, map[string]bool{}
		for len(queue) > 0 {
			real, err := filepath.EvalSymlinks(queue[0])
			if queue = queue[1:]; err != nil {
				t.Fatal(err)
			}
			if entered[real] {
				continue
			}
			entered[real] = true
			entries, err := os.ReadDir(real)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if path := filepath.Join(real, e.Name()); strings.HasPrefix(e.Name(), "f") {
					want[path] = true
				} else {
					queue = append(queue, path)
				}
			}
		}
		plain := map[string]bool{}
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			plain[path] = d.Type().IsRegular()
			return err
		})
		files, err := Walk(root, all)
		if err != nil || len(files) != len(want) {
			t.Fatalf("%v %v, want %v", files, err, want)
		}
		for _, f := range files {
			real, err := filepath.EvalSymlinks(f.Name)
			if err != nil || !want[real] || plain[real] && f.Name != real {
				t.Fatalf("%s is %s: %v", f.Name, real, err)
			}
			delete(want, real)
		}
		if !slices.IsSortedFunc(files, func(a, b Info) int { return comparePaths(a.Name, b.Name) }) {
			t.Fatalf("%v is out of order", files)
		}
	})
}

// A link to what is not there is an error that names both, unless it is not wanted.
func TestWalkNamesBrokenLinks(t *testing.T) {
	dir := t.TempDir()
	for name, to := range map[string]string{"gone": "/nowhere/at all", "self": "self"} {
		link := filepath.Join(dir, name)
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		if _, err := Walk(dir, all); err == nil || !strings.Contains(err.Error(), link+" is a link to "+to) {
			t.Errorf("%s: %v", name, err)
		}
		files, err := Walk(dir, func(path string, d fs.DirEntry) bool { return d.Type()&fs.ModeSymlink == 0 })
		if err != nil || len(files) != 0 {
			t.Errorf("%s: %v %v", name, files, err)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
}
