package quantized

import (
	"regexp"
	"strings"

	"github.com/quire/quire/blocks"
)

// planned is how a config says that matrices are stored, before a file is there.
type planned struct {
	bits    int
	e4m3    bool
	zero    bool
	columns int // of a scale; 0: all
	number  blocks.Scale
}

// skips are the modules of modules_to_not_convert or ignored_layers: ends of names, or patterns of whole parts of them
// from the begin on, as transformers reads them.
type skips []string

func parseSkips(c *config) (list skips) {
	for _, key := range []string{"modules_to_not_convert", "ignored_layers"} {
		list = append(list, c.list(key)...)
	}
	return list
}

func (s skips) has(name string) bool {
	for _, key := range s {
		if strings.HasSuffix(name, key) {
			return true
		}
		re, err := regexp.Compile(`^(?:` + key + `)(?:\.|$)`)
		if err == nil && re.MatchString(name) {
			return true
		}
	}
	return false
}
