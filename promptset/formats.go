package promptset

import (
	"io"
	"regexp"
	"slices"
	"strings"
)

// Formats of output files.
const (
	FormatParquet = "parquet"
	FormatJSONL   = "jsonl"
)

// outputFormat is a format of output files.
type outputFormat struct {
	name      string
	extension string // of parts
	metaFile  bool   // the job's metadata are in the file MetaName beside the parts, as they have no footers
	encoder   func(w io.Writer, columns *outputColumns, o *EncoderOptions) (Encoder, error)
	// settle changes the results of a row to those that the format can have; nil leaves them.
	settle func([]Result) []Result
	// read gives the rows of a part to each, and returns the metadata of its footer.
	read func(in io.ReaderAt, size int64, each func(*Completion) error) (map[string]string, error)
}

// outputFormats are the formats, the default first. A new one is an entry here.
var outputFormats = []outputFormat{
	{name: FormatParquet, extension: "parquet", encoder: newParquetEncoder, read: readParquetPart},
	{name: FormatJSONL, extension: "jsonl", metaFile: true, encoder: newJSONLEncoder, read: readJSONLPart},
	{name: FormatOpenAI, extension: "openai.jsonl", metaFile: true, settle: oneError, encoder: newAnswerEncoder,
		read: readAnswerPart},
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

// HasMetaFile says whether outputs of a format have the file [MetaName].
func HasMetaFile(format string) bool {
	f := formatNamed(format)
	return f != nil && f.metaFile
}

// formatNamed returns the format of that name, nil where there is none.
func formatNamed(name string) *outputFormat {
	if i := slices.IndexFunc(outputFormats, func(f outputFormat) bool { return f.name == name }); i >= 0 {
		return &outputFormats[i]
	}
	return nil
}

// extensionsPattern matches the extensions of parts.
func extensionsPattern() string {
	var all []string
	for _, f := range outputFormats {
		all = append(all, regexp.QuoteMeta(f.extension))
	}
	return strings.Join(all, "|")
}

// FileStem returns the name of a file without its ending, where that tells a format of inputs or outputs; "" where it
// tells none, as that of a folder does.
func FileStem(name string) string {
	lower := strings.ToLower(name)
	longest := ""
	for _, ending := range slices.AppendSeq([]string{".json", ".txt"}, extensions()) {
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

// formatOfFile returns the format that a file's name tells: the one with the longest extension, JSONL where none has.
func formatOfFile(name string) string {
	found, longest := FormatJSONL, 0
	for _, f := range outputFormats {
		if strings.HasSuffix(name, "."+f.extension) && len(f.extension) > longest {
			found, longest = f.name, len(f.extension)
		}
	}
	return found
}
