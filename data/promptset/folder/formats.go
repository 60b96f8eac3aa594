package folder

import (
	"regexp"
	"slices"
	"strings"
)

// The formats of parts.
const (
	Parquet = "parquet"
	JSONL   = "jsonl"
	// OpenAI is the format of the output files of OpenAI's batch API: one line for each row of a batch file, with all
	// of its completions.
	OpenAI = "openai"
)

// partFormat defines how the parts of a format are named.
type partFormat struct {
	name      string
	extension string
	metaFile  bool // the job's metadata are in the file MetaName next to the parts, which have no footers
}

var partFormats = []partFormat{
	{Parquet, "parquet", false}, {JSONL, "jsonl", true}, {OpenAI, "openai.jsonl", true},
}

// HasMetaFile reports whether outputs of a format have the file [MetaName].
func HasMetaFile(format string) bool {
	return slices.ContainsFunc(partFormats, func(f partFormat) bool { return f.name == format && f.metaFile })
}

// extensionOf returns the extension of a format's parts: the format's name if it is unknown.
func extensionOf(format string) string {
	if i := slices.IndexFunc(partFormats, func(f partFormat) bool { return f.name == format }); i >= 0 {
		return partFormats[i].extension
	}
	return format
}

// extensionsPattern returns a pattern for the extensions of parts.
func extensionsPattern() string {
	var all []string
	for _, f := range partFormats {
		all = append(all, regexp.QuoteMeta(f.extension))
	}
	return strings.Join(all, "|")
}

// FormatOfFile returns the format of a file by its name: the one with the longest matching extension, JSONL if none
// matches.
func FormatOfFile(name string) string {
	found, longest := JSONL, 0
	for _, f := range partFormats {
		if strings.HasSuffix(name, "."+f.extension) && len(f.extension) > longest {
			found, longest = f.name, len(f.extension)
		}
	}
	return found
}
