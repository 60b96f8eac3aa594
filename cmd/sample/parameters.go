package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset"
)

// parameterFlags defines a flag for each parameter that has one. The values in set are their defaults.
func parameterFlags(s *pflag.FlagSet, set *parameter.Set) {
	for p := range parameter.Own() {
		if p.Flag == "" {
			continue
		}
		usage := p.Note
		if p.Placeholder != "" {
			usage = fmt.Sprintf("`%s` %s", p.Placeholder, p.Note)
		}
		if p.Default() == "0" { // the help adds the others
			usage += " (default 0)"
		}
		switch at := p.At(set).(type) {
		case *int:
			s.IntVarP(at, p.Flag, p.Short, *at, usage)
		case *float64:
			s.Float64VarP(at, p.Flag, p.Short, *at, usage)
		case *uint64:
			s.VarP((*seedValue)(at), p.Flag, p.Short, usage)
		case *bool:
			s.BoolVarP(at, p.Flag, p.Short, *at, usage)
		case *[]string:
			s.StringArrayVarP(at, p.Flag, p.Short, *at, usage)
		}
	}
}

// columnsFlag defines --columns.
func columnsFlag(s *pflag.FlagSet, columns *[]string) {
	var known []string
	for c := range promptset.Columns() {
		if c.OnRequest {
			known = append(known, c.Name)
		}
	}
	s.StringSliceVar(columns, "columns", nil, fmt.Sprintf(
		"`NAME` add columns to the output, separated by commas or repeated: %s (default: none of these)",
		strings.Join(known, ", ")))
}
