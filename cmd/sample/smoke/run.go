package smoke

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/cmd/sample/cli"
)

// result is a part in the file.
type result struct {
	Part    string  `json:"part"`
	Seconds float64 `json:"seconds"`
	OK      bool    `json:"ok"`
	Skipped string  `json:"skipped,omitempty"` // why it was not done
	Figures any     `json:"figures,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// report is the file of a run.
type report struct {
	Command  []string  `json:"command"`
	Version  string    `json:"version"`
	Goldens  origin    `json:"goldens"`
	Started  time.Time `json:"started"`
	Finished bool      `json:"finished"` // all parts were tried
	Parts    []result  `json:"parts"`
}

// runFolder runs the parts on a folder.
func runFolder(ctx context.Context, env *cli.Environment, o *options, folder string) error {
	chosen, points, err := o.check()
	if err != nil {
		return err
	}
	r := report{Command: os.Args, Version: cli.QuireVersion(), Started: time.Now().UTC().Truncate(time.Second)}
	if err := readJSON(filepath.Join(folder, originFile), &r.Goldens); err != nil {
		return cli.Exit(cli.ExitUsage, fmt.Errorf("smoke: %w: name a folder that \"sample smoke pack\" made", err))
	}
	plugin, err := setup.FindPlugin(o.platform())
	if err != nil {
		return fmt.Errorf("smoke: %w", err)
	}
	work, err := os.MkdirTemp("", "quire-smoke-*")
	if err != nil {
		return fmt.Errorf("smoke: %w", err)
	}
	defer os.RemoveAll(work)
	p, err := thisProgram(setup.EnvPlugin(o.platform()) + "=" + plugin) // whatever QUIRE_CACHE a part has
	if err != nil {
		return fmt.Errorf("smoke: %w", err)
	}
	s := &session{program: p, options: o, points: points, folder: folder, work: work, messages: env.Stderr}
	failed := 0
	total := 0.0
	for _, p := range chosen {
		if p.lacks == nil || p.lacks(s) == "" {
			total += p.share
		}
	}
	// A part ends when the shares of it and of all before it are over, so that it has the time that these left.
	end := time.Now()
	for _, p := range chosen {
		done := result{Part: p.name}
		if p.lacks != nil {
			done.Skipped = p.lacks(s)
		}
		if done.OK = done.Skipped != ""; !done.OK {
			end = end.Add(time.Duration(o.minutes * p.share / total * float64(time.Minute)))
			done = s.do(ctx, p, end)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !done.OK {
			failed++
		}
		r.Parts = append(r.Parts, done)
		r.Finished = len(r.Parts) == len(chosen)
		if err := writeJSON(o.out, r); err != nil {
			return fmt.Errorf("smoke: --out: %w", err)
		}
	}
	fmt.Fprintf(env.Stdout, "%s has the figures: send it back\n", o.out)
	if failed > 0 {
		return cli.Exit(cli.ExitPartial, fmt.Errorf("smoke: %d of %d parts failed", failed, len(chosen)))
	}
	return nil
}

// do does a part until a time.
func (s *session) do(ctx context.Context, p part, end time.Time) result {
	start := time.Now()
	late := fmt.Errorf("it was not done within the %.0f s that it had (--minutes)", time.Until(end).Seconds())
	ctx, cancel := context.WithDeadlineCause(ctx, end, late)
	defer cancel()
	figures, err := p.do(ctx, s)
	done := result{Part: p.name, Seconds: time.Since(start).Seconds(), OK: err == nil, Figures: figures}
	if err != nil {
		done.Error = err.Error()
		fmt.Fprintf(s.messages, "%s: failed after %.0f s: %v\n", p.name, done.Seconds, err)
		return done
	}
	fmt.Fprintf(s.messages, "%s: done in %.0f s\n", p.name, done.Seconds)
	return done
}

// check returns the parts of a run and the points of the part speed.
func (o *options) check() (chosen []part, points []point, err error) {
	if !slices.Contains([]string{backend.XLACPU, backend.XLACUDA, backend.XLATPU}, o.backend) {
		return nil, nil, cli.Usagef("smoke: --backend is %s, but must be xla:cuda, xla:tpu or xla:cpu", o.backend)
	}
	if !(o.minutes > 0) || o.tolerance < 0 || o.bandwidth < 0 || o.peak < 0 {
		return nil, nil, cli.Usagef("smoke: --minutes must be above 0, and --tolerance, --bandwidth and --peak at " +
			"least 0")
	}
	for _, text := range o.points {
		slots, context, _ := strings.Cut(text, "x")
		p := point{}
		if p.slots, err = strconv.Atoi(slots); err == nil {
			p.context, err = strconv.Atoi(context)
		}
		if err != nil || p.slots < 1 || p.context < 1 {
			return nil, nil, cli.Usagef("smoke: --points has %q, but needs numbers such as 64x1024", text)
		}
		points = append(points, p)
	}
	all := parts()
	if o.only == "" {
		return all, points, nil
	}
	for _, name := range strings.Split(o.only, ",") {
		i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, nil, cli.Usagef("smoke: --only has %q: the parts are %s", name, strings.Join(names(all), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, points, nil
}

func names(all []part) (list []string) {
	for _, p := range all {
		list = append(list, p.name)
	}
	return list
}
