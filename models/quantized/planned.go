package quantized

import (
	"regexp"
	"strings"

	"github.com/quire/quire/backend/blocks"
)

// planned describes how matrices are stored according to a config, before there is a file.
type planned struct {
	bits    int
	e4m3    bool
	zero    bool
	columns int // columns that share a scale; 0: all
	number  blocks.Scale
}

// skips are the modules of modules_to_not_convert or ignored_layers: suffixes of names, or patterns that match whole
// components from the start, as transformers reads them.
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
