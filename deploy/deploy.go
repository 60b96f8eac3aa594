// Package deploy renders the manifests of a job for a cluster: an Indexed Job of Kubernetes, JobSets for TPUs on GKE,
// an array job of Slurm. Errors name settings in backquotes, in the spelling of config files.
package deploy

import (
	"bytes"
	"embed"
	"regexp"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/quire/quire/data/setting"
)

// Job is what a manifest runs: "sample run" in several processes that share one output.
type Job struct {
	// Name is the name of the job in the cluster.
	Name string
	// Flags are the flags of "sample run", without the flags that the manifest adds.
	Flags []Flag
	// Workers is the number of shards of the rows. Each shard is one process, or several that run one model together.
	Workers int
}

// Flag is a flag of "sample run" with its value.
type Flag struct {
	Name, Value string
	// File reports whether the value is a file or folder that the process opens by this name.
	File bool
	// note is a comment after the flag.
	note string
}

// arg returns the flag as one argument.
func (f Flag) arg() string { return "--" + f.Name + "=" + f.Value }

// File is a manifest: its name and its content.
type File struct {
	Name string
	Text []byte
}

// maxWorkers is the maximum number of shards, because an Indexed Job cannot have more completions.
const maxWorkers = 99_999

// maxArgument is the length of the longest argument that Linux accepts, MAX_ARG_STRLEN without the terminating byte.
const maxArgument = 131_071

// check rejects what no cluster accepts, or what would be changed on the way.
func (j *Job) check() error {
	if j.Workers < 1 || j.Workers > maxWorkers {
		return setting.Errorf("`workers` is %d, but must be 1 to %d", j.Workers, maxWorkers)
	}
	for _, f := range j.Flags {
		switch {
		case !utf8.ValidString(f.Value):
			return setting.Errorf("%s is %.100q, but a manifest holds UTF-8 only", setting.Name(f.Name), f.Value)
		case strings.Contains(f.Value, "\x00"):
			return setting.Errorf("%s is %.100q, but an argument cannot hold a zero byte",
				setting.Name(f.Name), f.Value)
		case len(f.arg()) > maxArgument:
			return setting.Errorf("%s takes %d bytes, but an argument may have %d", setting.Name(f.Name),
				len(f.arg()), maxArgument)
		}
	}
	return nil
}

// matches checks an optional setting against a pattern.
func matches(name, value string, pattern *regexp.Regexp, most int, must string) error {
	if value != "" && (len(value) > most || !pattern.MatchString(value)) {
		return setting.Errorf("%s is %q, but must be %s", setting.Name(name), value, must)
	}
	return nil
}

//go:embed templates
var sources embed.FS

var templates = func() *template.Template {
	t := template.New("")
	t.Funcs(template.FuncMap{
		"yaml": yamlText, "arg": func(f Flag) string { return yamlText(escapeExpansion(f.arg())) },
		"sh": func(f Flag) string { return shellWord(f.arg()) }, "note": func(f Flag) string { return f.note },
		// pod renders the template of that name, indented.
		"pod": func(data any, columns int) (string, error) {
			var b strings.Builder
			if err := t.ExecuteTemplate(&b, "pod.yaml", data); err != nil {
				return "", err
			}
			return moved(strings.TrimSpace(b.String()), columns), nil
		},
	})
	return template.Must(t.ParseFS(sources, "templates/*"))
}()

// moved indents each line except the first.
func moved(text string, columns int) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", columns))
}

// render executes a template.
func render(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
