package promptset

import (
	"io"
	"slices"
	"strings"

	"github.com/quire/quire/data/promptset/answers"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/jsonl"
	"github.com/quire/quire/data/promptset/parquet"
)

// outputFormat is a format of output files.
type outputFormat struct {
	name    string
	encoder func(w io.Writer, columns *completion.Layout, o *completion.EncoderOptions) (completion.Encoder, error)
	// settle changes a row's results to what the format can represent; nil leaves them unchanged.
	settle func([]Result) []Result
	// read calls each for every row of a part from a row on, and returns the metadata of its footer.
	read func(in io.ReaderAt, size, from int64, each func(*Completion) error) (map[string]string, error)
	// values calls each with the values of columns, for every row of a file.
	values func(name string, in io.ReaderAt, size int64, columns []string, each func([]any) error) error
	// meta reads the metadata of a part's footer; nil if parts have none.
	meta func(in io.ReaderAt, size int64) (map[string]string, error)
}

// outputFormats lists the formats, the default first. To add one, add an entry.
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

// Settled returns what an output of a format can represent of a row's results.
func Settled(format string, results []Result) []Result {
	if f := formatNamed(format); f != nil && f.settle != nil {
		return f.settle(results)
	}
	return results
}

// formatNamed returns the format of that name, nil if there is none.
func formatNamed(name string) *outputFormat {
	if i := slices.IndexFunc(outputFormats, func(f outputFormat) bool { return f.name == name }); i >= 0 {
		return &outputFormats[i]
	}
	return nil
}

// FileStem returns the name of a file without its extension if that identifies a format of inputs or outputs;
// otherwise "", for example for a folder.
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
