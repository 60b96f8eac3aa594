package models

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
)

// splitFiles are the three files of a model, the first of which has only metadata: scripts/oracle/gguf_goldens.py.
func splitFiles() []string {
	return SplitNames(filepath.Join("testdata", "split", "qwen3-00001-of-00003.gguf"))
}

// A split model is the whole one, whichever of its files is named.
func TestSplitGGUF(t *testing.T) {
	whole := openTest(t, filepath.Join("testdata", "qwen3.gguf"))
	want, _ := json.Marshal(whole.Config)
	fingerPrint := ""
	for _, path := range splitFiles() {
		c := openTest(t, path)
		if warnings, err := c.Validate(); err != nil || len(warnings) > 0 {
			t.Fatalf("%s: warnings %v, error %v", path, warnings, err)
		}
		sameTensors(t, c, whole, dtypes.Float16)
		if got, _ := json.Marshal(c.Config); string(got) != string(want) {
			t.Errorf("%s: config is\n%s, want\n%s", path, got, want)
		}
		if fingerPrint == "" {
			fingerPrint = c.FingerPrint()
		}
		if c.FingerPrint() != fingerPrint || fingerPrint == "" || c.StoredBytes() != whole.StoredBytes() {
			t.Errorf("%s: identity %q of %d bytes, want %q of %d", path, c.FingerPrint(), c.StoredBytes(), fingerPrint,
				whole.StoredBytes())
		}
		h := newHoles(t, filepath.Dir(path))
		parts, err := OpenParts(filepath.Join(h.dir, filepath.Base(path)), h.need, nil)
		if err != nil {
			t.Fatal(err)
		}
		if parts.FingerPrint() != fingerPrint {
			t.Errorf("%s with holes is another model", path)
		}
		sameTensors(t, parts, whole, dtypes.Float16)
		parts.Close()
	}
}

func TestSplitGGUFRefusals(t *testing.T) {
	names := splitFiles()
	for name, c := range map[string]struct {
		spoil func(files map[string]string)
		open  string
		want  []string
	}{
		"parts missing": {func(files map[string]string) { delete(files, "a-1"); delete(files, "a-3") }, "a-2",
			[]string{"missing are a-00001-of-00003.gguf, a-00003-of-00003.gguf; put them in its folder"}},
		"parts exchanged": {func(files map[string]string) { files["a-2"], files["a-3"] = files["a-3"], files["a-2"] },
			"a-1", []string{"a-00002-of-00003.gguf is not marked as part 2 of 3", "split.no 2"}},
		"a whole model among them": {func(files map[string]string) {
			files["a-2"] = filepath.Join("testdata", "qwen2.gguf")
		}, "a-1", []string{"a-00002-of-00003.gguf is not marked as part 2 of 3"}},
		"a part twice": {func(files map[string]string) { files["a-3"] = files["a-2"] }, "a-1",
			[]string{"a-00003-of-00003.gguf is not marked as part 3 of 3"}},
		"other name": {func(files map[string]string) { files["other"] = files["a-1"] }, "other",
			[]string{"is one of 3 of a split model; name the files NAME-00001-of-00003.gguf"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"a-1": names[0], "a-2": names[1], "a-3": names[2]}
			c.spoil(files)
			dir := t.TempDir()
			at := func(name string) string {
				if number, ok := strings.CutPrefix(name, "a-"); ok {
					name = "a-0000" + number + "-of-00003"
				}
				return filepath.Join(dir, name+".gguf")
			}
			for name, from := range files {
				data, err := os.ReadFile(from)
				if err != nil {
					t.Fatal(err)
				}
				write(t, at(name), data)
			}
			_, err := Open(at(c.open))
			lacks := func(s string) bool { return !strings.Contains(err.Error(), s) }
			if err == nil || slices.ContainsFunc(c.want, lacks) {
				t.Errorf("the error should say %q: %v", c.want, err)
			}
		})
	}
}

func TestSplitNames(t *testing.T) {
	for name, want := range map[string][]string{
		"d/m-00002-of-00002.gguf": {"d/m-00001-of-00002.gguf", "d/m-00002-of-00002.gguf"},
		"m-00003-of-00002.gguf":   {"m-00003-of-00002.gguf"},
		"m-00000-of-00002.gguf":   {"m-00000-of-00002.gguf"},
		"m-1-of-2.gguf":           {"m-1-of-2.gguf"},
		"m-00001-of-99999.gguf":   {"m-00001-of-99999.gguf"},
		"m.gguf":                  {"m.gguf"},
	} {
		if got := SplitNames(name); !slices.Equal(got, want) {
			t.Errorf("%s is of %q, want %q", name, got, want)
		}
	}
}
