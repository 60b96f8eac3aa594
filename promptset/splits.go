package promptset

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// splitPattern finds the split that a path names, as the package datasets does: a word between other characters than
// letters.
var splitPattern = regexp.MustCompile(`(?i)(?:^|[^a-z])(train(?:ing)?|valid(?:ation)?|val|dev|test(?:ing)?|eval` +
	`(?:uation)?)(?:$|[^a-z])`)

// splitOf returns which split a file of a dataset belongs to, "" where its path names none, and a glob of the files
// that are named alike.
func splitOf(name string) (split, glob string) {
	at := splitPattern.FindAllStringSubmatchIndex(name, -1)
	if len(at) == 0 {
		return "", ""
	}
	last := at[len(at)-1] // a file's own name counts more than its folder's
	from, to := last[2], last[3]
	switch word := strings.ToLower(name[from:to]); word[0] {
	case 'v', 'd':
		split = "validation"
	case 'e':
		split = "test"
	default:
		split = strings.TrimSuffix(word, "ing")
	}
	if rest := name[to:]; strings.Contains(rest, "/") {
		return split, name[:to] + rest[:strings.Index(rest, "/")]
	}
	return split, name[:to] + "*" + path.Ext(name)
}

// checkSplits refuses a folder of a dataset with files of several splits: whoever names the whole would draw from what
// models are tested with, too.
func checkSplits(folder string, names []string) error {
	globs := map[string]string{}
	var splits []string
	for _, name := range names {
		split, glob := splitOf(name)
		if _, known := globs[split]; split != "" && !known {
			globs[split] = glob
			splits = append(splits, split)
		}
	}
	if len(splits) < 2 {
		return nil
	}
	slices.Sort(splits)
	first := splits[0]
	if slices.Contains(splits, "train") {
		first = "train"
	}
	return &FileError{File: folder, What: fmt.Sprintf("it has the splits %s: name the files of one, such as %s/%s",
		strings.Join(splits, ", "), strings.TrimSuffix(folder, "/"), globs[first])}
}
