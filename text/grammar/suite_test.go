package grammar_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/text/grammar"
)

var write = flag.Bool("write", false, "write the baseline of JSON-Schema-Test-Suite")

const baseline = "testdata/suite.txt"

// JSON-Schema-Test-Suite, whose checkout QUIRE_JSON_SCHEMA_SUITE names. The groups that pass whole are those of the
// baseline, or more. A group is known by its contents too: those that another version of the suite has are kept in the
// baseline, and not looked for. No group, passing or not, may accept what is invalid.
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
	var passing, all []string
	groups, refused, refuseValid := 0, 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var contents []json.RawMessage
		if err := json.Unmarshal(text, &contents); err != nil {
			t.Fatal(file, err)
		}
		name, _ := filepath.Rel(folder, file)
		for _, raw := range contents {
			group, id := suiteGroup(t, raw)
			id = filepath.ToSlash(name) + ": " + group.Description + " " + id
			groups, all = groups+1, append(all, id)
			a, err := grammar.JSONSchema(group.Schema, inAnyOrder)
			impossible := err != nil && strings.Contains(err.Error(), "no text can be complete")
			if err != nil && !impossible {
				refused++
				t.Logf("%s: %s: refused: %v", name, group.Description, err)
				continue
			}
			passes := true
			for _, test := range group.Tests {
				text := dumped(test.Data)
				got := !impossible && (accepts(a, text) || test.Valid && accepts(a, respelled(text)))
				if got && !test.Valid {
					t.Errorf("%s: %s: %s: %s is accepted", name, group.Description, test.Description, test.Data)
				}
				passes = passes && got == test.Valid
			}
			if passes {
				passing = append(passing, id)
			} else {
				refuseValid++
				t.Logf("%s: %s: refuses what is valid", name, group.Description)
			}
		}
	}
	t.Logf("%d groups: %d pass, %d are refused, %d refuse something valid", groups, len(passing), refused, refuseValid)
	before, err := os.ReadFile(baseline)
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for _, id := range strings.Split(strings.TrimSpace(string(before)), "\n") {
		switch {
		case !slices.Contains(all, id):
			passing = append(passing, id)
		case slices.Contains(passing, id):
			known++
		case !*write:
			t.Errorf("%s passed before", id)
		}
	}
	if *write {
		slices.Sort(passing)
		if err := os.WriteFile(baseline, []byte(strings.Join(passing, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if t.Logf("%d of them are in the baseline", known); known < 300 {
		t.Errorf("only %d groups of this suite are in the baseline", known)
	}
}

type group struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

// suiteGroup reads a group, and makes a short text of its contents.
func suiteGroup(t *testing.T, raw json.RawMessage) (g group, id string) {
	var compact bytes.Buffer
	if err := json.Unmarshal(raw, &g); err != nil || json.Compact(&compact, raw) != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(compact.Bytes())
	return g, hex.EncodeToString(sum[:4])
}
