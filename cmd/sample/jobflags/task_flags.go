package jobflags

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/models/scoring"
)

// embeddingFlags defines the task and the flags for vectors.
func embeddingFlags(s *pflag.FlagSet, job *spec.Spec) {
	s.StringVar((*string)(&job.Task), "task", string(job.Task),
		"`TASK` what to compute for each prompt: generate (completions), embed (a vector: docs/embeddings.md), "+
			"classify (scores of classes) or rerank (scores of documents: docs/classify.md)")
	e := &job.Embedding
	s.StringVar(&e.Type, "embedding-type", string(completion.Float32),
		"`TYPE` type of the numbers of vectors: float32, float16, int8 (with one scale, in the files' metadata) or "+
			"binary (a bit for each number, 8 in a byte)")
	s.IntVar(&e.Dimensions, "dimensions", 0,
		"`N` keep the first N numbers of each vector, of models that were trained for it (Matryoshka); 0 keeps all")
	s.StringVar(&e.Pooling, "pooling", spec.EmbeddingAuto,
		"`MODE` how the states of tokens become one vector: auto (as the model's files say), mean, cls (the first "+
			"token's), last or max")
	s.StringVar(&e.Normalize, "normalize", spec.EmbeddingAuto,
		"`MODE` divide vectors by their length: auto (as the model's files say), on or off")
	s.BoolVar(&e.Multi, "multi-vector", false,
		"a list of vectors of each prompt, one for each token, of models for late interaction (ColBERT); prompts are "+
			"documents, or queries with --prompt-name query")
	s.StringVar(&e.PromptName, "prompt-name", "",
		"`NAME` the prompt before each text, among those of the model's files, such as query or document; or none "+
			"(default: the one that the files name)")
}

// ofGenerating are flags of jobs that generate, besides parameters: nothing of a vector or score depends on them.
var ofGenerating = []string{"generation-config", "reasoning-parser", "tool-call-parser", "json-schema", "regex",
	"choice", "grammar", "max-seqs", "kv", "kv-memory", "kv-dtype", "page-size", "prefix-cache", "admission",
	"host-kv-memory", "save-prefix", "load-prefix", "prefix-dir", "speculate", "draft-model", "features",
	"ep", "max-rounds", "zero-pages", "layers", "dump-tables", "dump-tables-to"}

// scoringFlags defines the flags for scores.
func scoringFlags(s *pflag.FlagSet, scores *spec.Scoring) {
	s.StringVar(&scores.Function, "score-function", spec.ScoringAuto,
		"`NAME` what makes scores of the numbers of the model's head: auto (as the model's files say), "+
			strings.Join(scoring.Functions(), ", "))
	s.IntVar(&scores.TopN, "top-n", 0,
		"`N` the column ranking, and answers to lines of /v1/rerank, have the N best documents; 0 has all")
}

// ofTasks are the flags that only commands for some tasks have a use for.
var ofTasks = map[completion.Task][]string{
	completion.Embed:    {"embedding-type", "dimensions", "pooling", "normalize", "prompt-name", "multi-vector"},
	completion.Classify: {"score-function"},
	completion.Rerank:   {"score-function", "top-n"},
}

// allOfGenerating are all flags of jobs that generate, with the parameters of sampling.
func allOfGenerating() []string {
	names := slices.Clone(ofGenerating)
	for p := range parameter.Own() {
		if !p.OfPrompt() && p.Flag != "" {
			names = append(names, p.Flag)
		}
	}
	return names
}

// hideOthers hides the flags that a command for a task has no use for. They are refused by name.
func hideOthers(s *pflag.FlagSet, task completion.Task) {
	names := append([]string{"task"}, allOfGenerating()...)
	for _, flags := range ofTasks {
		for _, name := range flags {
			if !slices.Contains(ofTasks[task], name) {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		_ = s.MarkHidden(name)
	}
	columns := cmp.Or(strings.Join(cli.ColumnsOnRequest(task), ", "), "there are none")
	for flag, usage := range map[string]string{
		"output": "`FOLDER` where the " + task.Results() + " go (part-00000.parquet and so on), local or at s3://, " +
			"gs:// or azblob://" + toStandard,
		"columns": "`NAME` add columns to the output, separated by commas or repeated: " + columns +
			" (default: none of these)",
		"truncate-prompt-tokens": "`TOKENS` keep the first N tokens of a longer prompt; -1 keeps as many as the " +
			"model takes, 0 makes a prompt that is too long an error (default -1)",
	} {
		s.Lookup(flag).Usage = usage
	}
}

// checkTask refuses flags that contradict the task.
func checkTask(o *Options, f *cli.Flags) error {
	if o.ForTask != "" && o.Spec.Task != o.ForTask {
		return fmt.Errorf("--task is %s, and \"sample %s\" is for one task: use \"sample run\"", o.Spec.Task,
			f.Set.Name())
	}
	if !o.Spec.Encodes() {
		return nil
	}
	given := slices.DeleteFunc(slices.Clone(ofGenerating), func(name string) bool { return f.Set.Lookup(name) == nil })
	return cli.RefuseGiven(f, given, fmt.Sprintf("is for generated text, and --task is %s: leave it out", o.Spec.Task))
}
