package run

import (
	"strings"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
)

// NewEmbed is run for one task.
func NewEmbed() *cli.Command {
	o := jobflags.Options{ForTask: completion.Embed}
	command := newJob(&o)
	command.Name, command.Args = "embed", "[FILE...]"
	command.Summary = "make a vector of every prompt in " + promptset.InputFormats() + " files"
	command.About = cli.Paragraph("The same as \"sample run --task embed\". Each input row has a column \"prompt\" "+
		"(text), \"messages\" or \"prompt_token_ids\", and perhaps \"id\"; --prompt-column takes another one. The "+
		"output has a row for each of them, in the order of the input: the input's columns, then "+
		strings.Join(cli.DefaultColumns(completion.Embed), ", ")+" (docs/embeddings.md). A row that cannot be run has "+
		"an error; the job continues, and the exit code is 3.") + `
Pooling, normalization, prompts and the longest text are as the model's files say, those of sentence-transformers.
A longer text is truncated, which the column truncated tells. A vector depends on the model and the prompt, not on what
else runs.

The job is kept, resumed, split and queued as in "sample run": see "sample help run".`
	command.Example = `
sample embed -m ./all-MiniLM-L6-v2 -i corpus.parquet --prompt-column text -o vectors
sample embed -m hf://BAAI/bge-m3 -i 'docs/*.jsonl' -o vectors --embedding-type float16
sample embed -m ./embeddinggemma-300m -i queries.jsonl -o queries --prompt-name query --dimensions 256
sample embed -m ./all-MiniLM-L6-v2 -i batch.jsonl -o answers --format openai     # lines of /v1/embeddings`
	command.Short = []string{"model", "input", "output", "prompt-column", "template", "prompt-name", "pooling",
		"normalize", "dimensions", "embedding-type", "truncate-prompt-tokens", "exclude-columns", "format", "limit",
		"new", "extend", "retry-errors", "workers", "config", "backend", "quiet", "verbose"}
	return command
}
