package run

import (
	"strings"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
)

// taskCommand is run for one task, whose name it has.
type taskCommand struct {
	task               completion.Task
	summary, rows, doc string // what it makes, what rows have, and the page
	about, example     string
	short              []string // flags of the short help, besides those of all tasks
}

var taskCommands = []taskCommand{
	{task: completion.Embed, summary: "make a vector of every prompt", rows: rowsOfPrompts, doc: "docs/embeddings.md",
		about: `
Pooling, normalization, prompts and the longest text follow the model's files, as in sentence-transformers.
A longer text is truncated, which the column truncated tells. A vector depends on the model and the prompt, not on what
else runs.
`,
		example: `
sample embed -m minilm "Why is the sky blue?"
sample embed -m ./all-MiniLM-L6-v2 -i corpus.parquet --prompt-column text -o vectors
sample embed -m hf://BAAI/bge-m3 -i 'docs/*.jsonl' -o vectors --embedding-type float16
sample embed -m ./embeddinggemma-300m -i queries.jsonl -o queries --prompt-name query --dimensions 256
sample embed -m ./all-MiniLM-L6-v2 -i batch.jsonl -o answers --format openai     # lines of /v1/embeddings`,
		short: []string{"prompt-column", "template", "prompt-name", "pooling", "normalize", "dimensions",
			"embedding-type", "multi-vector"}},
	{task: completion.Classify, summary: "score classes of every prompt", rows: rowsOfPrompts +
		" A column \"text_pair\" makes pairs with the texts.", doc: "docs/classify.md",
		about: `
The model has a head that scores classes: its class ends in ForSequenceClassification. Scores are shares of all classes,
or each on its own, as the model's problem_type says. A longer text is truncated, which the column truncated tells.
Scores depend on the model and the prompt, not on what else runs.
`,
		example: `
sample classify -m ./sentiment -i reviews.parquet --prompt-column review -o labels
sample classify -m ./roberta-large-mnli -i pairs.jsonl -o labels                   # prompt and text_pair
sample classify -m ./reward-model -i chats.jsonl -o rewards --score-function none        # messages
sample classify -m ./sentiment -i batch.jsonl -o answers --format openai                 # lines of /v1/classify`,
		short: []string{"prompt-column", "template", "score-function"}},
	{task: completion.Rerank, summary: "score the documents of every query",
		rows: "Each input row has a column \"query\" (text), or another one that --prompt-column names, and a column " +
			"\"documents\" (a list of texts) or \"document\" (text), and perhaps \"id\".", doc: "docs/classify.md",
		about: `
The model is a cross-encoder: it has a head with one label, and reads the query and a document together. A pair that is
too long is truncated, which the column truncated tells. Scores depend on the model, the query and the document, not on
what else runs.
`,
		example: `
sample rerank -m hf://BAAI/bge-reranker-v2-m3 -i candidates.parquet -o ranked
sample rerank -m ./ms-marco-MiniLM-L6-v2 -i candidates.jsonl --prompt-column question -o ranked --top-n 10
sample rerank -m ./ms-marco-MiniLM-L6-v2 -i batch.jsonl -o answers --format openai   # lines of /v1/rerank, /v1/score`,
		short: []string{"prompt-column", "score-function", "top-n"}},
}

const rowsOfPrompts = "Each input row has a column \"prompt\" (text), \"messages\" or \"prompt_token_ids\", and " +
	"perhaps \"id\"; --prompt-column takes another one."

// NewTasks are the commands for one task each.
func NewTasks() (all []*cli.Command) {
	for _, t := range taskCommands {
		o := jobflags.Options{ForTask: t.task}
		command := newJob(&o)
		command.Name, command.Args = string(t.task), "[FILE...]"
		prompts := ""
		if !t.task.Reads().NeedsSeconds {
			command.Args = "[FILE... | PROMPT...]"
			prompts = "\nWithout --output an argument is a prompt, and its row is printed.\n"
		}
		command.Summary = t.summary + " in " + promptset.InputFormats() + " files"
		command.About = cli.Paragraph("The same as \"sample run --task "+string(t.task)+"\". "+t.rows+" The output "+
			"has a row for each of them, in the order of the input: the input's columns, then "+
			strings.Join(cli.DefaultColumns(t.task), ", ")+" ("+t.doc+"). A row that cannot be run has an error; the "+
			"job continues, and the exit code is 3.") + t.about + prompts + `
The job is kept, resumed, split and queued as in "sample run": see "sample help run".`
		command.Example = t.example
		command.Short = append(append([]string{"model", "input", "output"}, t.short...), "truncate-prompt-tokens",
			"exclude-columns", "format", "limit", "new", "extend", "retry-errors", "workers", "config", "backend",
			"quiet", "verbose")
		all = append(all, command)
	}
	return all
}
