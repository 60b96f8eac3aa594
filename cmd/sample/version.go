package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/pflag"
)

// version is set by the linker (see the Makefile); an ordinary "go install" leaves it to the build info.
var version string

func newVersion() *subcommand {
	short := false
	return &subcommand{
		name:    "version",
		summary: "print the version of sample and of the libraries that decide its results",
		flags: func(f *flags) {
			f.group("Flags", func(s *pflag.FlagSet) { s.BoolVar(&short, "short", false, "the version alone") })
		},
		run: func(_ context.Context, env *environment, args []string) error {
			if len(args) > 0 {
				return usagef("version takes no arguments, but was given %q", args)
			}
			fmt.Fprintln(env.stdout, "sample", quireVersion())
			if short {
				return nil
			}
			fmt.Fprintf(env.stdout, "%s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, dep := range info.Deps {
					if strings.HasPrefix(dep.Path, "github.com/gomlx/") || strings.HasSuffix(dep.Path, "/parquet-go") {
						fmt.Fprintln(env.stdout, dep.Path, dep.Version)
					}
				}
			}
			return nil
		},
	}
}

// quireVersion names the program's version; it is written into the output files too.
func quireVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
