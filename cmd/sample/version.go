package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/setup"
)

// linkedVersion and linkedCommit are what the linker set in package main; without them the build info counts.
var linkedVersion, linkedCommit string

func newVersion() *subcommand {
	short := false
	return &subcommand{
		name:    "version",
		summary: "print the version of sample, and of the libraries and plugins that decide its results",
		flags: func(f *flags) {
			f.group("Flags", func(s *pflag.FlagSet) { s.BoolVar(&short, "short", false, "the version alone") })
		},
		run: func(_ context.Context, env *environment, args []string) error {
			if len(args) > 0 {
				return usagef("version takes no arguments, but was given %q", args)
			}
			fmt.Fprintln(env.stdout, "sample", quireVersion())
			if !short {
				printBuild(env.stdout)
			}
			return nil
		},
	}
}

// printBuild prints what the program was made from, and the plugins that it would load.
func printBuild(w io.Writer) {
	info, known := debug.ReadBuildInfo()
	if of := commitOf(info); of != "" {
		fmt.Fprintln(w, "commit", of)
	}
	fmt.Fprintf(w, "%s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if known {
		for _, dep := range info.Deps {
			if strings.HasPrefix(dep.Path, "github.com/gomlx/") || strings.HasSuffix(dep.Path, "/parquet-go") {
				fmt.Fprintln(w, dep.Path, dep.Version)
			}
		}
	}
	for _, platform := range setup.Platforms() {
		path, err := setup.FindPlugin(platform)
		switch {
		case platform == setup.CUDACompile: // the same plugin as cuda
		case err == nil:
			fmt.Fprintf(w, "plugin %s: %s\n", platform, path)
		case platform == "cpu":
			fmt.Fprintln(w, "plugin cpu: none; run: sample setup cpu")
		}
	}
}

// commitOf is the commit that the program was built from, "" if that is not known.
func commitOf(info *debug.BuildInfo) string {
	if linkedCommit != "" || info == nil {
		return linkedCommit
	}
	of := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			of = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			of += ", with changes that are not committed"
		}
	}
	return of
}

// quireVersion names the program's version; it is written into the output files too.
func quireVersion() string {
	if linkedVersion != "" {
		return linkedVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
