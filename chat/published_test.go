package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// published is testdata/published.json: how transformers renders published templates, which are not committed (see
// scripts/oracle/template_goldens.py).
type published struct {
	Cases     []golden
	Templates []publishedTemplate
}

type publishedTemplate struct {
	Name, SHA256 string
	Parts, Null  bool
	ArgumentText bool     `json:"argument_text"`
	Results      []string // of each case: see result in template_goldens.py; of a text its hash
}

func readPublished(t *testing.T) (p published) {
	t.Helper()
	data, err := os.ReadFile("testdata/published.json")
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Cases {
		p.Cases[i].BOS, p.Cases[i].EOS = "<s>", "</s>"
	}
	return p
}

// differ are templates that render otherwise than by transformers where tools are given.
var differ = map[string]string{
	"llama-cpp-deepseek-r1":           "tojson of what map makes fails in Python",
	"meetkai-functionary-medium-v3.1": "text + text|safe is escaped in Python",
}

// TestPublishedTemplates renders the published templates of 176 models as transformers does, where
// scripts/oracle/collect_templates.py has collected them.
func TestPublishedTemplates(t *testing.T) {
	p := readPublished(t)
	now = func() time.Time { return time.Date(2025, 3, 7, 9, 5, 4, 0, time.UTC) }
	t.Cleanup(func() { now = time.Now })
	texts := map[string][]string{} // whole ones, to look at what differs
	if data, err := os.ReadFile(os.Getenv("QUIRE_TEMPLATE_TEXTS")); err == nil {
		if err := json.Unmarshal(data, &texts); err != nil {
			t.Fatal(err)
		}
	}
	rendered := 0
	for _, of := range p.Templates {
		t.Run(of.Name, func(t *testing.T) {
			source := of.read(t)
			template, err := Parse(source)
			if err != nil {
				t.Fatal(err)
			}
			if m := template.manners(); m != (manners{of.Parts, of.Null, of.ArgumentText}) {
				t.Errorf("takes parts, null, argument text: %v, want %v %v %v", m, of.Parts, of.Null, of.ArgumentText)
			}
			for i, want := range of.Results {
				rendered++
				text, err := p.Cases[i].with(template)
				if got := resultOf(text, err); got != want && (differ[of.Name] == "" || len(p.Cases[i].Tools) == 0) {
					if whole := texts[of.Name]; whole != nil {
						want = whole[i]
					}
					t.Errorf("case %d: %s, %v\n got %q\nwant %q", i, got, err, text, want)
				}
			}
		})
	}
	if rendered > 0 && rendered < 10_000 {
		t.Errorf("only %d cases", rendered)
	}
}

// read returns the template's source, and skips the test where it is not collected.
func (of *publishedTemplate) read(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("QUIRE_CACHE")
	if user, err := os.UserCacheDir(); cache == "" && err == nil {
		cache = filepath.Join(user, "quire")
	}
	source, err := os.ReadFile(filepath.Join(cache, "templates", of.Name+".jinja"))
	if err != nil {
		t.Skip("run scripts/oracle/collect_templates.py")
	}
	if sum := sha256.Sum256(source); hex.EncodeToString(sum[:]) != of.SHA256 {
		t.Skip("collected in another version")
	}
	return string(source)
}

// resultOf is what published.json has for a text, or an error.
func resultOf(text string, err error) string {
	var raised *RaisedError
	switch {
	case err == nil:
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:6])
	case errors.As(err, &raised):
		return "!" + raised.Message
	}
	for _, refusal := range []string{"the chat template takes no", "has no variable for", "nothing that the chat"} {
		if strings.Contains(err.Error(), refusal) {
			return "-"
		}
	}
	return "?"
}
