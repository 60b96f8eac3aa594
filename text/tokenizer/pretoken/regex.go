package pretoken

import (
	"fmt"
	"regexp"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// pattern is a split pattern for a backtracking engine. Hugging Face tokenizers use Oniguruma. Constructs that the two
// engines interpret differently are rejected.
type pattern struct{ re *regexp2.Regexp }

// matchTimeout bounds the matching of one text: pattern and text are both untrusted, and together they can take
// exponential time.
const matchTimeout = 10 * time.Second

// unlike matches constructs of Oniguruma that regexp2 lacks or interprets differently: POSIX classes, class
// intersection, \h \H \R \X \K \G \y \Y \O \N, absent groups and subexpression calls.
var unlike = regexp.MustCompile(`\[\[:|&&|\\[hHRXKGyYONgkzZ]|\(\?~|\(\?@|\(\?[a-z]*[ap]`)

func compilePattern(expr string) (*pattern, error) {
	if unsupported := unlike.FindString(expr); unsupported != "" {
		return nil, fmt.Errorf("the pattern %q has %q, which is not supported", expr, unsupported)
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
