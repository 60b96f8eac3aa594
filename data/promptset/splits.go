package promptset

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// splitPattern matches the split that a path names, as the package datasets does: a word between characters other
// than letters.
var splitPattern = regexp.MustCompile(`(?i)(?:^|[^a-z])(train(?:ing)?|valid(?:ation)?|val|dev|test(?:ing)?|eval` +
	`(?:uation)?)(?:$|[^a-z])`)

// splitOf returns the split that a file of a dataset belongs to, "" if its path names none, and a glob for files with
// similar names.
func splitOf(name string) (split, glob string) {
	matches := splitPattern.FindAllStringSubmatchIndex(name, -1)
	if len(matches) == 0 {
		return "", ""
	}
	last := matches[len(matches)-1] // the file name takes precedence over folders
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

// checkSplits rejects a folder of a dataset with files of several splits: a job over the whole would also use the
// data that models are tested with.
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
