package tokenizer

import (
	"fmt"
	"regexp"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// pattern is a split pattern run by a backtracking engine. Hugging Face
// tokenizers run them by Oniguruma; the constructs the two read differently are
// refused.
type pattern struct{ re *regexp2.Regexp }

// matchTimeout bounds one text's matching: a pattern is the model file's, the
// text a stranger's, and together they can take exponential time.
const matchTimeout = 10 * time.Second

// unlike matches constructs of Oniguruma that mean something else, or nothing,
// to regexp2: POSIX classes, class intersection, \h \H \R \X \K \G \y \Y \O \N,
// absent groups and subexpression calls.
var unlike = regexp.MustCompile(`\[\[:|&&|\\[hHRXKGyYONgkzZ]|\(\?~|\(\?@|\(\?[a-z]*[ap]`)

func compilePattern(expr string) (*pattern, error) {
	if at := unlike.FindString(expr); at != "" {
		return nil, fmt.Errorf("the pattern %q has %q, which is not supported", expr, at)
	}
	re, err := regexp2.Compile(expr, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", expr, err)
	}
	re.MatchTimeout = matchTimeout
	return &pattern{re}, nil
}

// findAll returns the matches in s, which must be valid UTF-8.
func (p *pattern) findAll(s string) ([]span, error) {
	found, err := p.re.FindAllStringIndex(s, -1)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: the split pattern %q took too long on a text of %d bytes: %w", p.re.String(),
			len(s), err)
	}
	spans := make([]span, len(found))
	for i, f := range found {
		spans[i] = span{f[0], f[1]}
	}
	return spans, nil
}
