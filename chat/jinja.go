package chat

import (
	"errors"
	"fmt"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

func jinjaConfig() *config.Config {
	c := config.New()
	c.TrimBlocks = true
	c.LeftStripBlocks = true
	return c
}

// tags are the statements a template may use: none that loads another one.
var tags = []string{"break", "call", "continue", "do", "filter", "for", "if", "macro", "raw", "set", "with"}

func environment() *exec.Environment {
	parsers := map[string]parser.ControlStructureParser{"generation": parseGeneration}
	for _, tag := range tags {
		if p, ok := builtins.ControlStructures.Get(tag); ok {
			parsers[tag] = p
		}
	}
	for tag, p := range parsers {
		parsers[tag] = bounded(p)
	}
	filters := exec.NewFilterSet(map[string]exec.FilterFunction{}).Update(builtins.Filters).
		Update(exec.NewFilterSet(map[string]exec.FilterFunction{"tojson": toJSONFilter}))
	globals := exec.EmptyContext().Update(builtins.GlobalVariables).Update(exec.NewContext(map[string]any{
		"range":        boundedRange,
		"strftime_now": func(format string) (string, error) { return strftime(now(), format) },
	}))
	for _, name := range []string{"cycler", "dict", "joiner", "namespace"} {
		if f, ok := builtins.GlobalFunctions.Get(name); ok {
			globals.Set(name, f)
		}
	}
	return &exec.Environment{
		Context:           globals,
		Filters:           filters,
		Tests:             builtins.Tests,
		ControlStructures: exec.NewControlStructureSet(parsers),
		Methods:           builtins.Methods,
	}
}

// now is the clock that strftime_now reads.
var now = time.Now

// bounded makes a statement stop once its rendering has exceeded a limit, so
// that loops without output end too.
func bounded(parse parser.ControlStructureParser) parser.ControlStructureParser {
	return func(p, args *parser.Parser) (nodes.ControlStructure, error) {
		inner, err := parse(p, args)
		if err != nil {
			return nil, err
		}
		run, ok := inner.(exec.ControlStructure)
		if !ok {
			return inner, nil
		}
		return &boundedTag{run}, nil
	}
}

type boundedTag struct{ exec.ControlStructure }

func (b *boundedTag) Execute(r *exec.Renderer, tag *nodes.ControlStructureBlock) error {
	if v, ok := r.Environment.Context.Get(renderingVar); ok {
		if err := v.(*rendering).check(); err != nil {
			return err
		}
	}
	return b.ControlStructure.Execute(r, tag)
}

// maxRange is the limit of Jinja's sandbox.
const maxRange = 100000

func boundedRange(_ *exec.Evaluator, args *exec.VarArgs) ([]any, error) {
	bounds := [3]int{0, 0, 1}
	switch n := len(args.Args); n {
	case 1:
		bounds[1] = args.Args[0].Integer()
	case 2, 3:
		for i, a := range args.Args {
			bounds[i] = a.Integer()
		}
	default:
		return nil, fmt.Errorf("range takes 1 to 3 integers, not %d", n)
	}
	for _, a := range args.Args {
		if !a.IsInteger() {
			return nil, fmt.Errorf("range takes integers, not %s", a.String())
		}
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if step == 0 {
		return nil, errors.New("range: the step is 0")
	}
	list := []any{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(list) == maxRange {
			return nil, fmt.Errorf("range: more than %d items", maxRange)
		}
		list = append(list, i)
	}
	return list, nil
}

// generationTag is {% generation %}, which marks the assistant's text for
// training and changes nothing here.
type generationTag struct {
	at   *tokens.Token
	body *nodes.Wrapper
}

func parseGeneration(p, args *parser.Parser) (nodes.ControlStructure, error) {
	tag := &generationTag{at: p.Current()}
	if !args.End() {
		return nil, args.Error("the generation tag takes no arguments", nil)
	}
	body, _, err := p.WrapUntil("endgeneration")
	tag.body = body
	return tag, err
}

func (g *generationTag) Position() *tokens.Token { return g.at }
func (g *generationTag) String() string          { return "generation" }

func (g *generationTag) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	return r.Inherit().ExecuteWrapper(g.body)
}
