package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/setup"
)

// Version and linkedCommit are what the linker set in package main; without them the build info counts.
var Version, Commit string

func NewVersion() *Command {
	short := false
	return &Command{
		Name:    "version",
		Summary: "print the version of sample, and of the libraries and plugins that decide its results",
		Flags: func(f *Flags) {
			f.Group("Flags", func(s *pflag.FlagSet) { s.BoolVar(&short, "short", false, "the version alone") })
		},
		Run: func(_ context.Context, env *Environment, args []string) error {
			if len(args) > 0 {
				return Usagef("version takes no arguments, but was given %q", args)
			}
			fmt.Fprintln(env.Stdout, "sample", QuireVersion())
			if !short {
				printBuild(env.Stdout)
			}
			return nil
		},
	}
}

// printBuild prints what the program was made from, and the plugins that it would load.
func printBuild(w io.Writer) {
	info, known := debug.ReadBuildInfo()
	if commit := commitOf(info); commit != "" {
		fmt.Fprintln(w, "commit", commit)
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
		case platform == backend.CPU:
			fmt.Fprintln(w, "plugin cpu: none; run: sample setup cpu")
		}
	}
}

// commitOf is the commit that the program was built from, "" if that is not known.
func commitOf(info *debug.BuildInfo) string {
	if Commit != "" || info == nil {
		return Commit
	}
	commit := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			commit += ", with changes that are not committed"
		}
	}
	return commit
}

// QuireVersion names the program's version; it is written into the output files too.
func QuireVersion() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
