// Command jinja renders the chat templates that package chat is tested by with other people's template engines, and
// counts what they render as transformers does. See docs/dependencies.md, "Templates".
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// testCase is a case of text/chat/testdata/goldens.json.
type testCase struct {
	Template, Source    string
	Messages            []map[string]string
	AddGenerationPrompt bool   `json:"add_generation_prompt"`
	BOS                 string `json:"bos_token"`
	EOS                 string `json:"eos_token"`
	Text                *string
	Error               string
}

// vars are what transformers gives a template in addition to its functions.
func (c *testCase) vars() map[string]any {
	messages := make([]any, len(c.Messages))
	for i, m := range c.Messages {
		of := map[string]any{}
		for k, v := range m {
			of[k] = v
		}
		messages[i] = of
	}
	vars := map[string]any{"messages": messages, "tools": nil, "documents": nil,
		"add_generation_prompt": c.AddGenerationPrompt}
	if c.BOS != "" {
		vars["bos_token"] = c.BOS
	}
	if c.EOS != "" {
		vars["eos_token"] = c.EOS
	}
	return vars
}

// The clock of the cases.
var now = time.Date(2025, 3, 7, 9, 5, 4, 0, time.UTC)

// strftime formats now as Python does, by the directives that the cases have.
func strftime(format string) string {
	layouts := map[string]string{"%d": "02", "%b": "Jan", "%Y": "2006", "%H": "15", "%M": "04", "%S": "05",
		"%A": "Monday", "%B": "January", "%a": "Mon", "%y": "06", "%m": "01", "%p": "PM", "%I": "03", "%j": "002"}
	return regexp.MustCompile("%.").ReplaceAllStringFunc(format, func(directive string) string {
		if layout, ok := layouts[directive]; ok {
			return now.Format(layout)
		}
		return directive[1:]
	})
}

// raised is what a template's raise_exception asks for.
var raised = errors.New("raised")

// renderers parse a template and render it with variables.
var renderers = map[string]func(ctx context.Context, source string, vars map[string]any) (string, error){
	"minijinja": renderMinijinja,
	"gonja":     renderGonja,
}

func main() {
	data := flag.String("data", "../../text/chat/testdata", "folder of goldens.json and templates")
	engine := flag.String("engine", "minijinja", "minijinja or gonja")
	hostile := flag.Int("hostile", -1, "render one hostile template only; its own process, which may die")
	verbose := flag.Bool("v", false, "show each difference")
	flag.Parse()
	log.SetFlags(0)
	templates, err := readHostile(*data)
	if err != nil {
		log.Fatal(err)
	}
	if *hostile >= 0 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		text, err := safely(renderers[*engine])(ctx, templates[*hostile], (&testCase{}).vars())
		fmt.Printf("%d bytes, %.200v", len(text), err)
		return
	}
	cases, err := read(*data)
	if err != nil {
		log.Fatal(err)
	}
	compare(*engine, cases, *verbose)
	runHostile(*engine, *data, templates, *verbose)
}

var (
	generation    = regexp.MustCompile(`(\{%[-+]?)\s*generation\s*([-+]?%\})`)
	endGeneration = regexp.MustCompile(`(\{%[-+]?)\s*endgeneration\s*([-+]?%\})`)
)

func read(folder string) ([]testCase, error) {
	data, err := os.ReadFile(filepath.Join(folder, "goldens.json"))
	if err != nil {
		return nil, err
	}
	var cases []testCase
	if err := json.Unmarshal(data, &cases); err != nil {
		return nil, err
	}
	for i := range cases {
		if c := &cases[i]; c.Template != "" {
			source, err := os.ReadFile(filepath.Join(folder, "templates", c.Template))
			if err != nil {
				return nil, err
			}
			c.Source = string(source)
		}
		// Neither engine knows transformers' generation tag, and both can do without it.
		cases[i].Source = generation.ReplaceAllString(cases[i].Source, "$1 if true $2")
		cases[i].Source = endGeneration.ReplaceAllString(cases[i].Source, "$1 endif $2")
	}
	return cases, nil
}

// compare counts equal texts, for each template and for the single features.
func compare(engine string, cases []testCase, verbose bool) {
	render := safely(renderers[engine])
	same, all, why := map[string]int{}, map[string]int{}, map[string]int{}
	for i, c := range cases {
		of := c.Template
		if of == "" {
			of = "single features"
		}
		all[of]++
		all["in all"]++
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		text, err := render(ctx, c.Source, c.vars())
		cancel()
		switch {
		case c.Text == nil && err != nil, c.Text != nil && err == nil && text == *c.Text:
			same[of]++
			same["in all"]++
			continue
		case c.Text == nil:
			why["renders what transformers refuses"]++
		case err != nil:
			reason := err.Error()
			if at := strings.Index(reason, " (in "); at > 0 {
				reason = reason[:at]
			}
			why[fmt.Sprintf("error: %.90s", reason)]++
		default:
			why["another text"]++
		}
		if verbose {
			want := "error " + c.Error
			if c.Text != nil {
				want = *c.Text
			}
			fmt.Printf("%d %s %.300q\n   got %.300q, %.200v\n  want %.300q\n", i, c.Template, c.Source, text, err, want)
		}
	}
	for _, of := range sorted(all) {
		fmt.Printf("%-20s %3d of %3d\n", of, same[of], all[of])
	}
	for _, reason := range sorted(why) {
		fmt.Printf("%4d %s\n", why[reason], reason)
	}
}

func sorted(m map[string]int) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	})
	return names
}

// safely turns a panic into an error.
func safely(render func(context.Context, string, map[string]any) (string, error)) func(context.Context, string,
	map[string]any) (string, error) {
	return func(ctx context.Context, source string, vars map[string]any) (text string, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		return render(ctx, source, vars)
	}
}

// runHostile renders each hostile template in a process of its own, with 4 GiB of address space and 10 seconds. Ours
// ends each in at most a second and a few MiB.
func runHostile(engine, data string, templates []string, verbose bool) {
	bounded := 0
	for i, source := range templates {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -v 4194304; exec "$0" "$@"`, os.Args[0], "-engine", engine,
			"-data", data, "-hostile", strconv.Itoa(i))
		start := time.Now()
		out, err := cmd.Output()
		elapsed := time.Since(start)
		verdict, memory := "ended by itself", int64(0)
		if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			memory = use.Maxrss >> 10
		}
		switch {
		case ctx.Err() != nil:
			verdict = "not ended after 10 s"
		case err != nil:
			verdict = "the process died"
		default:
			bounded++
		}
		cancel()
		if verbose || verdict != "ended by itself" || elapsed > 2*time.Second || memory > 256 {
			fmt.Printf("%-90.90q %s: %.1f s, %d MiB, %s\n", source, verdict, elapsed.Seconds(), memory, out)
		}
	}
	fmt.Printf("hostile templates that end by themselves: %d of %d\n", bounded, len(templates))
}
