package main

import (
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// A worker did not give the flags of its job: whoever submitted it did. So that no error tells somebody to give a
// flag that their subcommand lacks, errors of a job say "the job's --flag" there, and remedies that are another
// subcommand's are written as its command line.

// commandLine is a mention of a command with its flags: of this program, or of the one that installs packages.
var commandLine = regexp.MustCompile(`\b(?:sample|pip) [a-z]+[^\n"';,()]*`)

// flagMention is a mention of a flag. Behind an equals sign it is part of a variable's value, and none of ours.
var flagMention = regexp.MustCompile(`(?:the job's |=)?--([a-z][a-z0-9-]*)`)

// jobError words an error of a job for a worker.
type jobError struct {
	err  error
	text string
}

func (e *jobError) Error() string { return e.text }
func (e *jobError) Unwrap() error { return e.err }

// ofJob names the flags that are the job's as such.
func ofJob(err error) error {
	if err == nil {
		return nil
	}
	worker, unknown := findSubcommand("worker")
	run, unknownRun := findSubcommand("run")
	if unknown != nil || unknownRun != nil {
		return err
	}
	mine, jobs := flagsOf(worker), flagsOf(run)
	text := asFlags(err.Error())
	var out strings.Builder
	reword := func(part string) {
		out.WriteString(flagMention.ReplaceAllStringFunc(part, func(mention string) string {
			if name := strings.TrimPrefix(mention, "--"); name != mention && jobs(name) && !mine(name) {
				return "the job's " + mention
			}
			return mention
		}))
	}
	at := 0
	for _, command := range commandLine.FindAllStringIndex(text, -1) {
		reword(text[at:command[0]])
		out.WriteString(text[command[0]:command[1]])
		at = command[1]
	}
	if reword(text[at:]); out.String() == err.Error() {
		return err
	}
	return &jobError{err, out.String()}
}

// flagsOf says which flags a subcommand has.
func flagsOf(sub *subcommand) func(flag string) bool {
	f := newFlags(sub.name)
	sub.flags(f)
	return func(flag string) bool { return flag == "help" || f.set.Lookup(flag) != nil }
}

// namesOfFlags lists the flags that a subcommand has.
func namesOfFlags(sub *subcommand) (names []string) {
	f := newFlags(sub.name)
	sub.flags(f)
	f.set.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return names
}
