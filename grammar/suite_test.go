package grammar_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/grammar"
)

var write = flag.Bool("write", false, "write the baseline of JSON-Schema-Test-Suite")

const baseline = "testdata/suite.txt"

// JSON-Schema-Test-Suite, whose checkout QUIRE_JSON_SCHEMA_SUITE names. The groups that pass whole are those of the
// baseline, or more. No group, passing or not, may accept what is invalid.
func TestJSONSchemaSuite(t *testing.T) {
	root := os.Getenv("QUIRE_JSON_SCHEMA_SUITE")
	if root == "" {
		t.Skip("QUIRE_JSON_SCHEMA_SUITE names no checkout of JSON-Schema-Test-Suite")
	}
	folder := filepath.Join(root, "tests", "draft2020-12")
	var files []string
	for _, pattern := range []string{"*.json", "optional/*.json", "optional/format/*.json"} {
		some, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(some) == 0 {
			t.Fatal("no files in", folder, err)
		}
		files = append(files, some...)
	}
	var passing []string
	groups, refused, refuseValid := 0, 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var all []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(file, err)
		}
		name, _ := filepath.Rel(folder, file)
		for _, group := range all {
			groups++
			a, err := grammar.JSONSchema(group.Schema, grammar.Options{AnyOrder: true})
			impossible := err != nil && strings.Contains(err.Error(), "no text can be complete")
			if err != nil && !impossible {
				refused++
				t.Logf("%s: %s: refused: %v", name, group.Description, err)
				continue
			}
			passes := true
			for _, test := range group.Tests {
				got := !impossible && accepts(a, dumped(test.Data))
				if got && !test.Valid {
					t.Errorf("%s: %s: %s: %s is accepted", name, group.Description, test.Description, test.Data)
				}
				passes = passes && got == test.Valid
			}
			if passes {
				passing = append(passing, filepath.ToSlash(name)+": "+group.Description)
			} else {
				refuseValid++
				t.Logf("%s: %s: refuses what is valid", name, group.Description)
			}
		}
	}
	slices.Sort(passing)
	t.Logf("%d groups: %d pass, %d are refused, %d refuse something valid", groups, len(passing), refused, refuseValid)
	if *write {
		if err := os.WriteFile(baseline, []byte(strings.Join(passing, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	before, err := os.ReadFile(baseline)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Split(strings.TrimSpace(string(before)), "\n") {
		if !slices.Contains(passing, name) {
			t.Errorf("%s passed before", name)
		}
	}
}
