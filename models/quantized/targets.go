package quantized

import (
	"fmt"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// targets are names of modules, classes of them, and patterns behind "re:", which match from a name's begin.
type targets struct {
	names    map[string]bool
	patterns []*regexp2.Regexp
}

const (
	byPattern  = "re:"
	linear     = "Linear"    // the class of all matrices
	embedding  = "Embedding" // but of embeddings
	embeddings = "embed_tokens"
)

// matchTimeout bounds the matching of one name: patterns are a stranger's.
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

// match says how well a module is among them, and by which: 3 by its name, 2 by a pattern, the first by the alphabet, 1
// by its class, 0 not.
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
