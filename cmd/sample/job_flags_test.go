package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/cmd/sample/queues"
)

// flagChecker remembers what a command says, to tell which flags its error names that the subcommand lacks.
type flagChecker struct {
	io.Writer
	mu   sync.Mutex
	said strings.Builder
}

func (c *flagChecker) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.said.Write(b)
	c.mu.Unlock()
	return c.Writer.Write(b)
}

// lacked is what is wrong with the error of a command line. Every script of TestScripts is so checked.
func (c *flagChecker) lacked(args []string) (lacked []string) {
	if len(args) == 0 {
		return nil
	}
	sub, err := cli.Find(args[0])
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, text, ok := strings.Cut("\n"+c.said.String(), "\nsample: ")
	if !ok || strings.Contains(text, "unknown flag: ") {
		return nil
	}
	return lackedFlags(text, jobflags.FlagsOf(sub))
}

func TestOfJob(t *testing.T) {
	cause := &cli.ExitError{
		Code: cli.ExitPartial,
		Err: errors.New(
			"lower --max-seqs or --kv-memory, or give --dtype bf16: \"sample submit --max-seqs 4\"; the job's " +
				"--tp is 2")}
	err := jobflags.Reword(fmt.Errorf("job a: %w", cause))
	const want = `job a: lower the job's --max-seqs or --kv-memory, or give the job's --dtype bf16: "sample submit --max-seqs 4"; the job's --tp is 2`
	if err.Error() != want {
		t.Errorf("%s, want\n%s", err, want)
	}
	var exit *cli.ExitError
	if !errors.As(err, &exit) || exit.Code != cli.ExitPartial {
		t.Errorf("the exit code is lost: %v", err)
	}
	worker := jobflags.FlagsOf(queues.NewWorker())
	if lacked := lackedFlags(err.Error(), worker); lacked != nil {
		t.Error(lacked)
	}
	if lacked := lackedFlags(cause.Error(), worker); !slices.Equal(lacked, []string{"max-seqs", "dtype"}) {
		t.Error(lacked)
	}
	if jobflags.Reword(nil) != nil {
		t.Error("no error has become one")
	}
}

// lackedFlags lists the flags that a text names and a subcommand does not have, but for those of command lines and of
// jobs.
func lackedFlags(text string, has func(flag string) bool) (lacked []string) {
	for _, m := range jobflags.FlagMention.FindAllStringSubmatch(jobflags.CommandLine.ReplaceAllString(text, ""), -1) {
		if strings.HasPrefix(m[0], "--") && !has(m[1]) {
			lacked = append(lacked, m[1])
		}
	}
	return lacked
}
