package grammar_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quire/quire/text/grammar"
	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/schema"
)

// maskBench is a file of MaskBench.
type maskBench struct {
	Schema json.RawMessage `json:"schema"`
	Tests  []struct {
		Valid bool            `json:"valid"`
		Data  json.RawMessage `json:"data"`
	} `json:"tests"`
}

// readMaskBench reads the files of MaskBench one after the other, by name.
func readMaskBench(t *testing.T) iter.Seq2[string, maskBench] {
	folder := os.Getenv("QUIRE_MASKBENCH")
	if folder == "" {
		t.Skip("QUIRE_MASKBENCH names no folder of MaskBench's data")
	}
	names, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(names) == 0 {
		t.Fatal("no files", err)
	}
	return func(yield func(string, maskBench) bool) {
		for _, name := range names {
			var m maskBench
			file, err := os.ReadFile(name)
			if err == nil {
				err = json.Unmarshal(file, &m)
			}
			if err != nil {
				t.Fatal(name, err)
			}
			if !yield(filepath.Base(name), m) {
				return
			}
		}
	}
}

// dumped writes JSON as Python's json.dumps does with ensure_ascii=False, which is how MaskBench feeds its instances.
func dumped(text json.RawMessage) string {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var b strings.Builder
	var write func()
	write = func() {
		token, err := d.Token()
		if err != nil {
			panic(err)
		}
		switch x := token.(type) {
		case json.Delim:
			b.WriteString(x.String())
			for i := 0; d.More(); i++ {
				if i > 0 {
					b.WriteString(", ")
				}
				if x == '{' {
					write()
					b.WriteString(": ")
				}
				write()
			}
			token, _ := d.Token()
			b.WriteString(token.(json.Delim).String())
		case string:
			var q strings.Builder
			e := json.NewEncoder(&q)
			e.SetEscapeHTML(false)
			_ = e.Encode(x)
			s := strings.TrimSuffix(q.String(), "\n")
			s = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(s)
			b.WriteString(s)
		case json.Number:
			b.WriteString(x.String())
		case bool:
			fmt.Fprint(&b, x)
		case nil:
			b.WriteString("null")
		}
	}
	write()
	return b.String()
}

// zeros are those at the end of a fraction.
var zeros = regexp.MustCompile(`("(?:[^"\\]|\\.)*")|(\.[0-9]*[1-9])0+\b|\.0+\b`)

// respelled writes numbers as JSON.stringify does: 10 for 10.0.
func respelled(text string) string { return zeros.ReplaceAllString(text, "$1$2") }

// MaskBench's schemas, whose folder QUIRE_MASKBENCH names: see bench/grammars.md. The bars are llguidance's score, no
// invalid instance, and where properties may come in any order 20 valid ones.
func TestMaskBench(t *testing.T) {
	files := readMaskBench(t)
	report, _ := os.Create(os.Getenv("QUIRE_MASKBENCH_REPORT"))
	var times []time.Duration
	passing, refused, acceptsInvalid, refusesValid := 0, 0, 0, 0
	schemas := 0
	options := grammar.Options{Schema: schema.Options{AnyOrder: os.Getenv("QUIRE_MASKBENCH_ORDER") == "any"}}
	for name, m := range files {
		schemas++
		began := time.Now()
		a, err := grammar.JSONSchema(m.Schema, options)
		took := time.Since(began)
		if took > 200*time.Millisecond {
			fmt.Fprintf(report, "%s\tslow\t%v\n", name, took)
		}
		if err != nil {
			refused++
			fmt.Fprintf(report, "%s\trefused\t%v\n", name, err)
			continue
		}
		times = append(times, took)
		verdict := ""
		for i, test := range m.Tests {
			text := dumped(test.Data)
			s, at := a.Start(), 0
			read := func() {
				for s, at = a.Start(), 0; at < len(text) && s != automaton.Dead; at++ {
					s = a.Settle(a.Next(s, text[at]), []byte(text[:at+1]))
				}
			}
			if read(); s == automaton.Dead && test.Valid {
				text = respelled(text)
				read()
			}
			if err := a.Memory().Err; err != nil {
				verdict = "valid refused"
				fmt.Fprintf(report, "%s\t%s\ttest %d: %v\n", name, verdict, i, err)
				break
			}
			if ok := s != automaton.Dead; ok != test.Valid {
				verdict = "invalid accepted"
				if test.Valid {
					verdict = "valid refused"
				}
				fmt.Fprintf(report, "%s\t%s\ttest %d: %.100s >>> %.60s\n", name, verdict, i,
					text[max(0, at-100):at], text[at:])
				break
			}
		}
		switch verdict {
		case "":
			passing++
		case "valid refused":
			refusesValid++
		default:
			acceptsInvalid++
		}
	}
	if len(times) == 0 {
		return
	}
	inAnyOrder := os.Getenv("QUIRE_MASKBENCH_ORDER") == "any"
	if acceptsInvalid > 0 || passing*11306 < 8909*schemas || inAnyOrder && refusesValid > 20 {
		t.Errorf("%d of %d pass, %d accept what is invalid, %d refuse what is valid", passing, schemas, acceptsInvalid,
			refusesValid)
	}
	slices.Sort(times)
	var sum time.Duration
	for _, d := range times {
		sum += d
	}
	t.Logf("%d schemas: %d pass, %d are refused, %d accept an invalid instance, %d refuse a valid one", schemas,
		passing, refused, acceptsInvalid, refusesValid)
	t.Logf("compile: mean %v, median %v, 90 %% %v, 99 %% %v, max %v", sum/time.Duration(len(times)),
		times[len(times)/2], times[len(times)*9/10], times[len(times)*99/100], times[len(times)-1])
}
