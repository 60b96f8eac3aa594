package promptset

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// partitioned makes a folder of files in folders named key=value.
func partitioned(t *testing.T) string {
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".parquet") {
			err := parquet.WriteFile(path, []struct {
				Prompt string `parquet:"prompt"`
			}{{text}})
			if err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put("in/lang=en/day=1%2F2/a.parquet", "one")
	put("in/lang=en/day=__HIVE_DEFAULT_PARTITION__/seed=7/b.jsonl", `{"prompt":"two"}`+"\n{")
	put("in/lang=de/c.csv", "prompt\nthree\n")
	return filepath.Join(dir, "in")
}

func TestPartitions(t *testing.T) {
	dir := partitioned(t)
	whole := map[string]string{"prompt": `"three" "one" "two" null`, "lang": `"de" "en" "en" null`,
		"day": `null "1/2" null null`}
	for _, c := range []struct {
		given   []string
		columns map[string]string
	}{
		{[]string{dir}, whole},
		{[]string{dir + "/"}, whole},
		{[]string{dir + "/*"}, whole},
		{[]string{dir + "/lang=en"}, map[string]string{"prompt": `"one" "two" null`, "day": `"1/2" null null`}},
		{[]string{dir + "/lang=en/day=*"}, map[string]string{"prompt": `"one" "two" null`, "day": `"1/2" null null`}},
		{[]string{dir + "/lang=de/c.csv"}, map[string]string{"prompt": `"three"`}},
	} {
		r := open(t, c.given...)
		_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
		for _, name := range []string{"prompt", "lang", "day", "seed"} {
			got := ""
			if root.Field(name) != nil {
				got = strings.Join(column(root, out, name), " ")
			}
			want(t, fmt.Sprint(c.given, " ", name), got, c.columns[name])
		}
		// By the names of the files and of the columns they are the same rows.
		var names []string
		for _, s := range r.Sources() {
			names = append(names, s.Name)
		}
		again := openMapped(t, Mapping{Partitions: r.Partitions()}, names...)
		want(t, "opened again", again.Schema().String(), r.Schema().String())
	}
	r := openMapped(t, Mapping{Template: fill("[lang]: [prompt]")}, dir)
	want(t, "template", rows(t, r)[1].Prompt, `"en": "one"`)
	r = openMapped(t, Mapping{PromptColumn: "lang"}, dir)
	want(t, "prompt column", rows(t, r)[1].Prompt, "en")
}

func TestPartitionsRefused(t *testing.T) {
	dir := partitioned(t)
	for name, text := range map[string]string{"x.jsonl": `{"prompt":"a","lang":"fr"}`, "x.csv": "prompt,lang\na,fr\n"} {
		path := filepath.Join(dir, "lang=fr", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(context.Background(), []string{dir}); err == nil ||
			!strings.Contains(err.Error(), `the file and its folder lang=... both have a column "lang"; rename one`) {
			t.Errorf("%s: %v", name, err)
		}
		os.Remove(path)
	}
	second := filepath.Join(dir, "lang=en", "lang=de")
	os.MkdirAll(second, 0o777)
	os.WriteFile(filepath.Join(second, "x.jsonl"), []byte(`{"prompt":"a"}`), 0o666)
	if _, err := Open(context.Background(), []string{dir}); err == nil ||
		!strings.Contains(err.Error(), "the folder lang=de is the second for the column lang; rename one") {
		t.Errorf("second: %v", err)
	}
}
