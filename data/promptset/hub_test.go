package promptset

import (
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/data/storage/hub/hubtest"
)

// Files, globs and folders of datasets of the hub are inputs. Of several splits one has to be named.
func TestDatasetsOfTheHub(t *testing.T) {
	rows := func(prompt string) string { return strings.Repeat("{\"prompt\": \""+prompt+"\"}\n", 20) }
	hub := hubtest.New(t)
	hub.Commit("org/name", "main", map[string]string{"README.md": "---", "data/train-0.jsonl": rows("a"),
		"data/train-1.jsonl": rows("b"), "data/test-0.jsonl": rows("c"), "dataset_infos.json": "{}"})
	hub.Commit("org/one", "v1", map[string]string{"train.jsonl": rows("d")})
	files, ctx := Anywhere(), t.Context()
	for name, want := range map[string][]string{
		"hf://datasets/org/name/data/train*":            {"data/train-0.jsonl", "data/train-1.jsonl"},
		"hf://datasets/org/name@main/data/test-0.jsonl": {"data/test-0.jsonl"},
		"hf://datasets/org/one@v1":                      {"train.jsonl"},
		"hf://datasets/org/one@v1/":                     {"train.jsonl"},
	} {
		got, err := files.Expand(ctx, name)
		for i := range want {
			want[i] = strings.Join(strings.Split(name, "/")[:5], "/") + "/" + want[i]
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", name, got, err)
			continue
		}
		f, err := files.Open(ctx, got[0])
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 12)
		if _, err := f.ReadAt(text, 0); err != nil || string(text) != "{\"prompt\": \"" {
			t.Errorf("%s: %q, %v", got[0], text, err)
		}
		f.Close()
	}
	for name, want := range map[string]string{
		"hf://datasets/org/name": "the splits test, train: name the files of one, such as " +
			"hf://datasets/org/name/data/train*.jsonl",
		"hf://datasets/org/name/data":    "such as hf://datasets/org/name/data/train*.jsonl",
		"hf://datasets/org/name/nothing": "there is no such file",
		"hf://datasets/org/other/a":      "there is no such",
		"hf://datasets/org":              "write hf://datasets/ORG/NAME",
		"hf://org/name":                  "write hf://datasets/ORG/NAME",
		"hf://datasets/org/name/*.csv":   "no file matches",
	} {
		if got, err := files.Expand(ctx, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
