package jobflags

import (
	"regexp"
	"strings"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/setting"
)

// A worker did not give the flags of its job: the submitter did. So that no error asks for a flag that the subcommand
// lacks, errors of a job say "the job's --flag" there, and remedies of another subcommand are written as its command
// line.

// CommandLine is a mention of a command with its flags: of this program, or of the one that installs packages.
var CommandLine = regexp.MustCompile(`\b(?:sample|pip) [a-z]+[^\n"';,()]*`)

// FlagMention is a mention of a flag. After an equals sign it is part of a variable's value, and not ours.
var FlagMention = regexp.MustCompile(`(?:the job's |=)?--([a-z][a-z0-9-]*)`)

// jobError words an error of a job for a worker.
type jobError struct {
	err  error
	text string
}

func (e *jobError) Error() string { return e.text }

// Spell is the error, which names settings as this command does already.
func (e *jobError) Spell(setting.Spelling) string { return e.text }

func (e *jobError) Unwrap() error { return e.err }

// Reword names the flags that are the job's as such.
func Reword(err error) error {
	if err == nil {
		return nil
	}
	worker, unknown := cli.Find("worker")
	run, unknownRun := cli.Find("run")
	if unknown != nil || unknownRun != nil {
		return err
	}
	mine, jobs := FlagsOf(worker), FlagsOf(run)
	text := cli.Message(err)
	var out strings.Builder
	reword := func(part string) {
		out.WriteString(FlagMention.ReplaceAllStringFunc(part, func(mention string) string {
			if name := strings.TrimPrefix(mention, "--"); name != mention && jobs(name) && !mine(name) {
				return "the job's " + mention
			}
			return mention
		}))
	}
	offset := 0
	for _, command := range CommandLine.FindAllStringIndex(text, -1) {
		reword(text[offset:command[0]])
		out.WriteString(text[command[0]:command[1]])
		offset = command[1]
	}
	if reword(text[offset:]); out.String() == err.Error() {
		return err
	}
	return &jobError{err, out.String()}
}

// FlagsOf reports which flags a subcommand has.
func FlagsOf(sub *cli.Command) func(flag string) bool {
	f := cli.NewFlags(sub.Name)
	sub.Flags(f)
	return func(flag string) bool { return flag == "help" || f.Set.Lookup(flag) != nil }
}
