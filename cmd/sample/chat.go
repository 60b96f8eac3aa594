package main

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
	"github.com/quire/quire/internal/plural"
)

func newChat() *subcommand {
	var o runOptions
	var f *flags
	return &subcommand{
		name:    "chat",
		summary: "talk with a model on the terminal",
		about: `
Reads the user's messages from standard input, one a line, and prints each answer as it comes. The conversation goes on:
the keys and values of earlier messages and answers stay in the prefix cache. Nothing is kept.

  /reset         begin anew
  /system TEXT   begin anew with this system message; without TEXT, with none
  /exit          end, as Ctrl-D does
  /help          list these
  //TEXT         a message that begins with /

Ctrl-C stops an answer; what is there of it stays in the conversation. Ctrl-C again ends the command. The same messages
have the same answers each time; another --seed gives others. Standard output has the answers alone.`,
		example: `
sample chat -m smollm2 --temperature 0
sample chat -m model.gguf --system 'Be brief.' --temperature 0.7 --max-tokens 512
sample chat -m smollm2 --temperature 0 < messages.txt`,
		flags: func(fl *flags) {
			f = fl
			o.defineChat(f)
		},
		run: func(ctx context.Context, env *environment, args []string) error {
			if len(args) > 0 {
				return usagef("chat takes no argument, but was given %q: messages come from standard input", args[0])
			}
			o.spec.Inputs, o.spec.Output, o.spec.Format = []string{spec.Standard}, spec.Standard, "jsonl"
			if err := errors.Join(o.readConfig(f), o.checkDumps()); err != nil {
				return &exitError{exitUsage, err}
			}
			if err := o.check(); err != nil {
				return &exitError{exitUsage, fmt.Errorf("%s: %w", f.set.Name(), err)}
			}
			stop, err := o.diagnostics.begin()
			if err != nil {
				return err
			}
			return errors.Join(o.chat(ctx, env), stop())
		},
	}
}

// notInChat are flags of groups of "sample run" that an answer on the terminal has no use for.
var notInChat = []string{"n-generations", "top-logprobs", "prompt-logprobs", "add-generation-prompt",
	"continue-final-message", "save-prefix"}

// defineChat defines the flags of "sample chat": those of a run for the model, sampling and the engine.
func (o *runOptions) defineChat(f *flags) {
	run := newFlags("run")
	o.define(run)
	f.group("Conversation", func(s *pflag.FlagSet) {
		for _, name := range []string{"system", "prefix-file", "config", "progress", "quiet"} {
			s.AddFlag(run.set.Lookup(name))
		}
	})
	for _, g := range run.groups {
		title, _, _ := strings.Cut(g.title, " (a row's")
		if !slices.ContainsFunc([]string{"Model", "Sampling", "Engine", diagnosticsTitle}, func(prefix string) bool {
			return strings.HasPrefix(title, prefix)
		}) {
			continue
		}
		f.group(title, func(s *pflag.FlagSet) {
			g.set.VisitAll(func(flag *pflag.Flag) {
				if !slices.Contains(notInChat, flag.Name) && flag.Name != "metrics" {
					s.AddFlag(flag)
				}
			})
		})
	}
}

// readConfig applies the config file, if there is one.
func (o *runOptions) readConfig(f *flags) error {
	if o.config == "" {
		return nil
	}
	return applyConfig(o.config, f, "config")
}

// chatCommands is what somebody at a terminal may type besides messages.
const chatCommands = "/reset, /system TEXT, /exit, /help; // begins a message with /; Ctrl-C stops an answer, " +
	"Ctrl-D ends"

// chatting is a conversation on the terminal.
type chatting struct {
	env      *environment
	with     *interactive.Conversation
	to       *teller
	failed   int // messages without an answer
	terminal bool

	mu          sync.Mutex
	stop        context.CancelFunc // of the answer; nil while there is none
	interrupted bool               // since the last message was read
}

// chat talks until standard input ends.
func (o *runOptions) chat(ctx context.Context, env *environment) error {
	trial, err := o.try(ctx, env)
	if err != nil {
		return err
	}
	defer trial.Close()
	c := &chatting{env: env, to: &teller{env: env, trial: trial, prompts: 1}, terminal: isInputTerminal(env.stdin)}
	if c.with, err = trial.NewConversation(); err != nil {
		return err
	}
	env.signals.takenBy(c.interrupt)
	defer env.signals.takenBy(nil)
	if c.terminal && !trial.Process.Quiet {
		fmt.Fprintln(env.stderr, chatCommands)
	}
	messages := readLines(env.stdin)
	for {
		if c.terminal {
			fmt.Fprint(env.stderr, "> ")
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
		return &exitError{exitPartial, fmt.Errorf("%s", plural.Count(c.failed, "message")+
			plural.Of(c.failed, " has no answer", " have no answer"))}
	}
	return err
}

// take takes a line. It returns false where that ends the conversation.
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
		fmt.Fprintln(c.env.stderr, chatCommands)
	case command == "/reset" && text == "":
		c.with.Restart(c.with.System())
	case command == "/system":
		c.with.Restart(strings.TrimSpace(text))
	default:
		c.failed++
		fmt.Fprintf(c.env.stderr, "error: %q is no command: /reset, /system TEXT, /exit and /help are; // begins a "+
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
	case errors.As(err, &ended) && ended.Outcome == outcome.Partial: // which was told
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
		fmt.Fprint(c.env.stderr, "\nCtrl-C again or Ctrl-D ends\n> ")
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
