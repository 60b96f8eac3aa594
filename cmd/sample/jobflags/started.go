package jobflags

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/completion"
)

// flagsOfSettings are flags of settings of job.json that have other names.
var flagsOfSettings = map[string]string{"served_models": "served-model-name", "rows": "limit"}

// otherFlags are further flags of a setting, which may be given in place of the first.
var otherFlags = map[string][]string{"n-generations": {"max-n"},
	"structured-outputs": {"json-schema", "regex", "choice", "grammar"}}

// flagsOfObjects are the flags of the members of settings that are objects.
var flagsOfObjects = map[string]map[string]string{
	"accept": {"regex": "accept-regex", "schema": "accept-schema", "equals": "accept-equals",
		"command": "accept-command", "score": "accept-score", "above": "accept-above", "extract": "extract",
		"until": "until", "until_majority": "until-majority"},
	"tool_calling": {"registry": "tools-from", "command": "tool-command", "max_turns": "max-turns",
		"failures": "tool-failures"},
}

// flagsOfTasks are the flags that give a task that another one becomes.
var flagsOfTasks = map[completion.Task]map[string]any{
	completion.MultiVector: {"task": string(completion.Embed), "multi-vector": true},
	completion.Tag:         {"task": string(completion.Classify)}, // the model's head makes it one of parts of texts
}

// ReadStarted gives flags that are not given, by a config file either, the values of a job that was started. What
// job.json has only the digest of stays open: a chat template of a file, --prefix-file, adapters, a model of scores.
func ReadStarted(f *cli.Flags, job *jobstate.Description) error {
	values := map[string]any{"generation-config": spec.GenerationNone} // the job's parameters are all there
	if model := job.Meta[completion.MetaModel]; model != "" {
		values["model"] = model
	}
	var inputs []any
	for _, in := range job.Inputs {
		inputs = append(inputs, in.Name)
	}
	values["input"] = inputs
	for name, value := range job.Settings {
		if digest, is := value.(string); is && strings.HasPrefix(digest, "sha256:") {
			continue
		}
		switch text, _ := value.(string); {
		case name == "task" && flagsOfTasks[completion.Task(text)] != nil:
			maps.Copy(values, flagsOfTasks[completion.Task(text)])
			continue
		case name == "normalize":
			values[name] = map[any]string{true: spec.EmbeddingOn, false: spec.EmbeddingOff}[value]
			continue
		}
		raw, isObject := value.(json.RawMessage)
		members, known := flagsOfObjects[name]
		if !isObject || !known {
			values[flagOfSetting(name)] = value
			continue
		}
		var object jobstate.Settings
		if err := json.Unmarshal(raw, &object); err != nil {
			return err
		}
		for key, flag := range members {
			if v, there := object[key]; there {
				values[flag] = v
			}
		}
	}
	for name, others := range otherFlags {
		if slices.ContainsFunc(others, func(other string) bool { return cli.Given(f.Set.Lookup(other)) }) {
			delete(values, name)
		}
	}
	if job.Settings["task"] != nil {
		without := allOfGenerating()
		if values["multi-vector"] != nil {
			without = append(without, "pooling") // it follows
		}
		maps.DeleteFunc(values, func(name string, _ any) bool { return slices.Contains(without, name) })
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		flag := f.Set.Lookup(name)
		if flag == nil || cli.Given(flag) || values[name] == nil {
			continue
		}
		if err := setStarted(flag, values[name]); err != nil {
			return fmt.Errorf("job.json: --%s: %w", name, err)
		}
		_ = f.Set.SetAnnotation(name, cli.GivenInConfig, []string{"job.json"})
	}
	return nil
}

// flagOfSetting returns the flag of a setting, which may not exist.
func flagOfSetting(name string) string {
	if flag := flagsOfSettings[name]; flag != "" {
		return flag
	}
	if p := parameter.Sink(name); p != nil {
		return p.Flag
	}
	return strings.ReplaceAll(name, "_", "-")
}

// setStarted sets a flag to a value of job.json.
func setStarted(flag *pflag.Flag, value any) error {
	list, isList := value.([]any)
	if !isList {
		return flag.Value.Set(textOf(value))
	}
	var texts []string
	for _, item := range list {
		texts = append(texts, textOf(item))
	}
	if several, ok := flag.Value.(pflag.SliceValue); ok {
		return several.Replace(texts)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return flag.Value.Set(string(text))
}

func textOf(value any) string {
	if raw, ok := value.(json.RawMessage); ok {
		return string(raw)
	}
	return fmt.Sprint(value)
}
