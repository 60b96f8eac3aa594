package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// readHostile reads the templates of TestLimits in package chat: each is a list of texts, each repeated a number of
// times.
func readHostile(folder string) (sources []string, err error) {
	data, err := os.ReadFile(filepath.Join(folder, "hostile.json"))
	if err != nil {
		return nil, err
	}
	var all [][]struct {
		Text  string
		Times int
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for _, parts := range all {
		source := ""
		for _, p := range parts {
			source += strings.Repeat(p.Text, p.Times)
		}
		sources = append(sources, source)
	}
	return sources, nil
}
