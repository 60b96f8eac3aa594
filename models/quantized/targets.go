package quantized

import (
	"fmt"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// targets are names of modules, classes of modules, and patterns after "re:", which match from the start of a name.
type targets struct {
	names    map[string]bool
	patterns []*regexp2.Regexp
}

const (
	byPattern  = "re:"
	linear     = "Linear"    // the class of all matrices
	embedding  = "Embedding" // except embeddings
	embeddings = "embed_tokens"
)

// matchTimeout bounds the matching of one name, because patterns are untrusted.
const matchTimeout = time.Second

func newTargets(list []string) (*targets, error) {
	t := &targets{names: map[string]bool{}}
	for _, name := range list {
		pattern, ok := strings.CutPrefix(name, byPattern)
		if !ok {
			t.names[name] = true
			continue
		}
		re, err := regexp2.Compile(`\A(?:`+pattern+`)`, regexp2.None)
		if err != nil {
			return nil, fmt.Errorf("the pattern %q of quantization_config: %w", name, err)
		}
		re.MatchTimeout = matchTimeout
		t.patterns = append(t.patterns, re)
	}
	return t, nil
}

// match returns how well a module matches and by which target: 3 by its name, 2 by a pattern (the alphabetically
// first), 1 by its class, 0 if it does not.
func (t *targets) match(module Module) (rank int, by string, err error) {
	for _, name := range []string{module.Name, module.Stored} {
		if t.names[name] {
			return 3, name, nil
		}
	}
	for _, re := range t.patterns {
		for _, name := range []string{module.Name, module.Stored} {
			found, err := re.MatchString(name)
			if err != nil {
				return 0, "", fmt.Errorf("the pattern %q of quantization_config took too long on %s: %w", re.String(),
					name, err)
			}
			if found && (rank == 0 || re.String() < by) {
				rank, by = 2, re.String()
			}
		}
	}
	if rank > 0 {
		return rank, by, nil
	}
	class := linear
	if strings.HasSuffix(module.Name, embeddings) {
		class = embedding
	}
	if t.names[class] {
		return 1, class, nil
	}
	return 0, "", nil
}
