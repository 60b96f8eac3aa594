package promptset

import (
	"io"
	"slices"
	"strings"

	"github.com/quire/quire/promptset/answers"
	"github.com/quire/quire/promptset/completion"
	"github.com/quire/quire/promptset/jsonl"
	"github.com/quire/quire/promptset/parquet"
)

// outputFormat is a format of output files.
type outputFormat struct {
	name    string
	encoder func(w io.Writer, columns *completion.Layout, o *completion.EncoderOptions) (completion.Encoder, error)
	// settle changes the results of a row to those that the format can have; nil leaves them.
	settle func([]Result) []Result
	// read gives the rows of a part to each, and returns the metadata of its footer.
	read func(in io.ReaderAt, size int64, each func(*Completion) error) (map[string]string, error)
	// values gives values of columns of each row of a file to each.
	values func(name string, in io.ReaderAt, size int64, columns []string, each func([]any) error) error
	// meta reads the metadata of a part's footer; nil if parts have none.
	meta func(in io.ReaderAt, size int64) (map[string]string, error)
}

// outputFormats are the formats, the default first. A new one is an entry here.
var outputFormats = []outputFormat{
	{name: FormatParquet, encoder: parquet.NewEncoder, read: parquet.ReadPart, values: parquet.ReadValues,
		meta: parquet.ReadMeta},
	{name: FormatJSONL, encoder: jsonl.NewEncoder, read: jsonl.ReadPart, values: jsonl.ReadValues},
	{name: FormatOpenAI, settle: answers.OneError, encoder: answers.NewEncoder, read: answers.ReadPart,
		values: jsonl.ReadValues},
}

// Formats names the formats of output files, the default first.
func Formats() (names []string) {
	for _, f := range outputFormats {
		names = append(names, f.name)
	}
	return names
}

// Settled returns what an output of a format can have of the results of a row.
func Settled(format string, results []Result) []Result {
	if f := formatNamed(format); f != nil && f.settle != nil {
		return f.settle(results)
	}
	return results
}

// formatNamed returns the format of that name, nil where there is none.
func formatNamed(name string) *outputFormat {
	if i := slices.IndexFunc(outputFormats, func(f outputFormat) bool { return f.name == name }); i >= 0 {
		return &outputFormats[i]
	}
	return nil
}

// FileStem returns the name of a file without its ending, where that tells a format of inputs or outputs; "" where it
// tells none, as that of a folder does.
func FileStem(name string) string {
	lower := strings.ToLower(name)
	longest := ""
	endings := []string{".txt"}
	for _, f := range inputFormats {
		endings = append(endings, f.Extensions...)
	}
	for _, ending := range endings {
		if strings.HasSuffix(lower, ending) && len(ending) > len(longest) {
			longest = ending
		}
	}
	stem := name[:len(name)-len(longest)]
	if longest == "" || stem == "" || strings.HasSuffix(stem, "/") {
		return ""
	}
	return stem
}
