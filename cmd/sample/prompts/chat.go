// Package prompts answers single prompts and conversations on the terminal: run with prompts as arguments, and chat.
package prompts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/interactive"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/internal/plural"
)

func NewChat() *cli.Command {
	var o jobflags.Options
	var f *cli.Flags
	return &cli.Command{
		Name:    "chat",
		Summary: "talk with a model on the terminal",
		About: `
Reads the user's messages from standard input, one per line, and prints each answer as it comes. The keys and values of
earlier messages and answers stay in the prefix cache, so each turn runs only its new tokens. Nothing is saved.

  /reset         start over
  /system TEXT   start over with this system message; without TEXT, with none
  /exit          end, as Ctrl-D does
  /help          list these
  //TEXT         a message that begins with /

Ctrl-C stops an answer; the text so far stays in the conversation. Ctrl-C again ends the command. The same messages
have the same answers each time; a different --seed gives different ones. Standard output has only the answers.`,
		Example: `
sample chat -m smollm2 --temperature 0
sample chat -m model.gguf --system 'Be brief.' --temperature 0.7 --max-tokens 512
sample chat -m smollm2 --temperature 0 < messages.txt`,
		Flags: func(fl *cli.Flags) {
			f = fl
			defineConversation(&o, f, "Conversation", "system", "prefix-file", "config", "progress", "quiet")
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("chat takes no argument, but was given %q: messages come from standard input",
					args[0])
			}
			return converse(f, &o, func() error { return chat(ctx, &o, env) })
		},
	}
}

// converse checks the flags of a command whose standard input and output are a conversation, and runs it.
func converse(f *cli.Flags, o *jobflags.Options, run func() error) error {
	o.Spec.Inputs, o.Spec.Output, o.Spec.Format = []string{spec.Standard}, spec.Standard, "jsonl"
	if err := errors.Join(o.ReadConfig(f), o.CheckDumps()); err != nil {
		return cli.Exit(cli.ExitUsage, err)
	}
	if err := o.Check(); err != nil {
		return cli.Exit(cli.ExitUsage, fmt.Errorf("%s: %w", f.Set.Name(), err))
	}
	stop, err := o.Diagnostics.Begin()
	if err != nil {
		return err
	}
	return errors.Join(run(), stop())
}

// notInChat are flags of groups of "sample run" that an answer on the terminal has no use for.
var notInChat = []string{"n-generations", "top-logprobs", "prompt-logprobs", "add-generation-prompt",
	"continue-final-message", "save-prefix"}

// defineConversation defines the flags of a run for the model, sampling and the engine, after a group with the named
// flags of a run.
func defineConversation(o *jobflags.Options, f *cli.Flags, title string, names ...string) {
	run := cli.NewFlags("run")
	o.Define(run)
	f.Group(title, func(s *pflag.FlagSet) {
		for _, name := range names {
			s.AddFlag(run.Set.Lookup(name))
		}
	})
	for _, g := range run.Groups {
		title, _, _ := strings.Cut(g.Title, " (a row's")
		if !slices.ContainsFunc([]string{"Model", "Sampling", "Engine", jobflags.DiagnosticsTitle},
			func(prefix string) bool {
				return strings.HasPrefix(title, prefix)
			}) {
			continue
		}
		f.Group(title, func(s *pflag.FlagSet) {
			g.Set.VisitAll(func(flag *pflag.Flag) {
				if !slices.Contains(notInChat, flag.Name) && flag.Name != "metrics" {
					s.AddFlag(flag)
				}
			})
		})
	}
}

// chatCommands are what a user at a terminal may type in addition to messages.
const chatCommands = "/reset, /system TEXT, /exit, /help; // begins a message with /; Ctrl-C stops an answer, " +
	"Ctrl-D ends"

// chatting is a conversation on the terminal.
type chatting struct {
	env      *cli.Environment
	with     *interactive.Conversation
	to       *printer
	failed   int // messages without an answer
	terminal bool

	mu          sync.Mutex
	stop        context.CancelFunc // of the answer; nil while there is none
	interrupted bool               // since the last message was read
}

// chat talks until standard input ends.
func chat(ctx context.Context, o *jobflags.Options, env *cli.Environment) error {
	model, err := open(ctx, o, env)
	if err != nil {
		return err
	}
	defer model.Close()
	c := &chatting{env: env, to: &printer{env: env, model: model, prompts: 1}, terminal: cli.IsInputTerminal(env.Stdin)}
	if c.with, err = model.NewConversation(); err != nil {
		return err
	}
	env.Signals.SetHandler(c.interrupt)
	defer env.Signals.SetHandler(nil)
	if c.terminal && !model.Process.Quiet {
		fmt.Fprintln(env.Stderr, chatCommands)
	}
	messages := readLines(env.Stdin)
	for {
		if c.terminal {
			fmt.Fprint(env.Stderr, "> ")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line := <-messages:
			if line.err != nil && line.err != io.EOF {
				return fmt.Errorf("cannot read standard input: %w", line.err)
			}
			more, err := c.take(ctx, strings.TrimSpace(line.text))
			if err != nil || !more || line.err != nil {
				return c.ended(err)
			}
		}
	}
}

// ended is how the command ends.
func (c *chatting) ended(err error) error {
	if err == nil && c.failed > 0 {
		return cli.Exit(cli.ExitPartial, fmt.Errorf("%s", plural.Count(c.failed, "message")+
			plural.Of(c.failed, " has no answer", " have no answer")))
	}
	return err
}

// take takes a line. It returns false if that ends the conversation.
func (c *chatting) take(ctx context.Context, line string) (more bool, err error) {
	c.mu.Lock()
	c.interrupted = false
	c.mu.Unlock()
	command, text, _ := strings.Cut(line, " ")
	switch {
	case line == "":
	case strings.HasPrefix(line, "//"):
		return true, c.say(ctx, line[1:])
	case !strings.HasPrefix(line, "/"):
		return true, c.say(ctx, line)
	case command == "/exit" && text == "":
		return false, nil
	case command == "/help" && text == "":
		fmt.Fprintln(c.env.Stderr, chatCommands)
	case command == "/reset" && text == "":
		c.with.Restart(c.with.System())
	case command == "/system":
		c.with.Restart(strings.TrimSpace(text))
	default:
		c.failed++
		fmt.Fprintf(c.env.Stderr, "error: %q is no command: /reset, /system TEXT, /exit and /help are; // begins a "+
			"message with /\n", line)
	}
	return true, nil
}

// say answers a message.
func (c *chatting) say(ctx context.Context, message string) error {
	answering, stop := context.WithCancel(ctx)
	defer stop()
	c.mu.Lock()
	c.stop = stop
	c.mu.Unlock()
	err := c.with.Send(answering, message, c.to)
	c.mu.Lock()
	c.stop = nil
	c.mu.Unlock()
	var ended *outcome.Error
	switch {
	case ctx.Err() == nil && answering.Err() != nil:
		return nil
	case errors.As(err, &ended) && ended.Outcome == outcome.Partial: // which was reported
		c.failed++
		return nil
	}
	return err
}

// interrupt takes a SIGINT, but for the second one in a row.
func (c *chatting) interrupt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupted {
		return false
	}
	if c.interrupted = true; c.stop != nil {
		c.stop()
	} else {
		fmt.Fprint(c.env.Stderr, "\nCtrl-C again or Ctrl-D ends\n> ")
	}
	return true
}

// inputLine is a line of standard input; err is why there is no more.
type inputLine struct {
	text string
	err  error
}

// readLines reads lines, as long as somebody takes them.
func readLines(r io.Reader) <-chan inputLine {
	lines := make(chan inputLine)
	go func() {
		in := bufio.NewReader(r)
		for {
			text, err := in.ReadString('\n')
			lines <- inputLine{text, err}
			if err != nil {
				return
			}
		}
	}()
	return lines
}
