package verdict

import (
	"context"
	"regexp"
	"strings"

	"github.com/quire/quire/data/promptset/record"
)

// Completion is what a verifier judges.
type Completion struct {
	Row        *record.Row
	Generation int
	Text       string
	Messages   string // the conversation as a JSON list, of completions that call tools
	Part       string // what is judged of the text; see Settings.Extract
	found      bool   // there is such a part
}

// Verdict is what a verifier decided.
type Verdict struct {
	Accepted bool
	Text     string // what it says in addition
}

// Verifier judges completions. Its methods may be called from several goroutines.
type Verifier interface {
	// Verify judges a completion. An error reports that the verifier failed, not that the completion is wrong.
	Verify(ctx context.Context, c *Completion) (Verdict, error)
	Close() error
}

// partOf returns the last match of a pattern, or its first group, without spaces around it. Without a pattern it is the
// whole text. found is false if the pattern does not match.
func partOf(pattern *regexp.Regexp, text string) (part string, found bool) {
	if pattern == nil {
		return strings.TrimSpace(text), true
	}
	matches := pattern.FindAllStringSubmatchIndex(text, -1)
	if len(matches) == 0 {
		return "", false
	}
	last := matches[len(matches)-1]
	from, to := last[0], last[1]
	if len(last) > 2 {
		from, to = last[2], last[3]
	}
	if from < 0 { // the group is in another alternative
		return "", true
	}
	return strings.TrimSpace(text[from:to]), true
}
