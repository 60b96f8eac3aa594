package interactive

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/contexts"
)

// Contexts does operations on numbered contexts of a model's engine for another program: each is a JSON object in a
// line, and so is its answer. docs/contexts.md lists them.
type Contexts struct {
	model *Model
	all   *contexts.Contexts
	open  map[int]*contexts.Context
	last  int // the number that was given last
	lines int // lines that were read
}

// NewContexts makes an empty set of contexts of a model that was opened with Options.Contexts.
func (t *Model) NewContexts() (*Contexts, error) {
	engines := t.session.Engines()
	if len(engines) != 1 {
		return nil, outcome.Errorf(outcome.Misused, "contexts belong to one engine, and `dp` makes %d: leave it out",
			len(engines))
	}
	return &Contexts{model: t, all: engines[0].Contexts(), open: map[int]*contexts.Context{}}, nil
}

// Close closes the contexts that are open.
func (s *Contexts) Close() (err error) {
	for _, number := range slices.Sorted(maps.Keys(s.open)) {
		err = errors.Join(err, s.open[number].Close())
	}
	clear(s.open)
	return err
}

// Answer does the operation of a line, and returns the line that answers it, with its end. It returns nil for a blank
// line.
func (s *Contexts) Answer(ctx context.Context, line []byte) []byte {
	s.lines++
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	got, err := s.do(ctx, line)
	if err != nil {
		got = answer{"error": message(err), "line": s.lines}
		if code := codeOf(err); code != "" {
			got["code"] = code
		}
	}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false) // texts are as in outputs
	if err := to.Encode(got); err != nil {
		out.Reset()
		_ = to.Encode(answer{"error": err.Error(), "line": s.lines})
	}
	return out.Bytes()
}

// answer is the object that answers a line.
type answer map[string]any

// call is one operation under way.
type call struct {
	*Contexts
	ctx     context.Context
	context *contexts.Context // nil if the operation has none
	row     *promptset.Row    // nil unless the operation may have a prompt
	given   []jsonvalue.Member
	members
}

// members are the members of a line, apart from those of a row.
type members struct {
	Op        string   `json:"op"`
	Context   int      `json:"context"`
	Named     []int    `json:"contexts"`
	Tokens    int      `json:"tokens"`
	Pages     int      `json:"pages"`
	Page      int      `json:"page"`
	Layer     int      `json:"layer"`
	Name      string   `json:"name"`
	Positions []int32  `json:"positions"`
	Mask      [][]flag `json:"mask"`
	Logits    []int    `json:"logits"`
}

// operation is what a value of "op" stands for.
type operation struct {
	needs, may []string // members that it must and may have
	prompt     bool     // it has the prompt of a row
	parameters bool     // and parameters
	do         func(*call) (answer, error)
}

// onContext is an operation on a context with one more member, whose answer has no more than the context's length.
func onContext(member string, do func(*call) error) operation {
	return operation{needs: []string{"context", member},
		do: func(c *call) (answer, error) { return answer{}, do(c) }}
}

var (
	ofContext  = []string{"context"}
	operations = map[string]operation{
		"info": {do: info},
		"new": {do: func(c *call) (answer, error) {
			return c.add(c.all.Open())
		}},
		"fork": {needs: ofContext, do: func(c *call) (answer, error) {
			return c.add(c.context.Fork(c.ctx))
		}},
		"load": {needs: []string{"name"}, do: func(c *call) (answer, error) {
			return c.add(c.all.OpenSnapshot(c.Name))
		}},
		"append":   {needs: ofContext, prompt: true, do: appendTokens},
		"flush":    {may: []string{"context", "contexts"}, do: flush},
		"generate": {needs: ofContext, prompt: true, parameters: true, do: generate},
		"score":    {needs: ofContext, prompt: true, do: score},
		"forward":  {needs: ofContext, may: []string{"positions", "mask", "logits"}, prompt: true, do: forward},
		"truncate": onContext("tokens", func(c *call) error {
			return c.context.Truncate(c.Tokens)
		}),
		"truncate_committed": onContext("tokens", func(c *call) error {
			return c.context.TruncateCommitted(c.Tokens)
		}),
		"commit_working_pages": onContext("pages", func(c *call) error {
			return c.context.Commit(c.ctx, c.Pages)
		}),
		"reserve_working_pages": onContext("pages", func(c *call) error {
			return c.context.Reserve(c.Pages)
		}),
		"release_working_pages": onContext("pages", func(c *call) error {
			return c.context.Release(c.Pages)
		}),
		"tokens": {needs: ofContext, do: func(c *call) (answer, error) {
			return answer{"tokens": listOf(c.context.Tokens())}, nil
		}},
		"pages": {needs: ofContext, do: pages},
		"page_hash": {needs: []string{"context", "page"}, do: func(c *call) (answer, error) {
			hash, err := c.context.PageHash(c.Page)
			return answer{"hash": hex.EncodeToString(hash[:])}, err
		}},
		"materialize": {needs: []string{"context", "layer"}, do: materialize},
		"save": onContext("name", func(c *call) error {
			return c.context.Save(c.Name)
		}),
		"delete": {needs: []string{"name"}, do: func(c *call) (answer, error) {
			return answer{}, c.all.DeleteSnapshot(c.Name)
		}},
		"snapshots": {do: func(c *call) (answer, error) {
			return answer{"names": append([]string{}, c.all.Snapshots()...)}, nil
		}},
		"close": {needs: ofContext, do: func(c *call) (answer, error) {
			delete(c.open, c.Context)
			return answer{}, c.context.Close()
		}},
	}
)

// do does the operation of a line.
func (s *Contexts) do(ctx context.Context, line []byte) (answer, error) {
	given, err := jsonvalue.ParseRow(line)
	if err != nil {
		return nil, err
	}
	c := &call{Contexts: s, ctx: ctx, given: given}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(line, &c.members); errors.As(err, &wrong) {
		return nil, fmt.Errorf("%s has a value of the wrong type: %s", wrong.Field, wrong.Value)
	} else if err != nil {
		return nil, err
	}
	op, known := operations[c.Op]
	if !known {
		return nil, fmt.Errorf("op is %q, but must be one of %s", c.Op,
			strings.Join(slices.Sorted(maps.Keys(operations)), ", "))
	}
	if err := op.check(c); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Op, err)
	}
	if slices.Contains(op.needs, "context") {
		if c.context, err = s.numbered(c.Context); err != nil {
			return nil, err
		}
	}
	if op.prompt {
		if c.row, err = rowOf(given); err != nil {
			return nil, err
		}
	}
	watch := process.WatchDevice(s.model.Process, s.model.session, func() bool { return false })
	defer watch.Stop()
	got, err := op.do(c)
	if err != nil {
		return nil, err
	}
	if c.context != nil && c.Op != "close" && got["length"] == nil {
		got["length"] = c.context.Len()
	}
	return got, nil
}

// check refuses a line that lacks members, or has others.
func (o *operation) check(c *call) error {
	has := func(name string) bool { return !jsonvalue.IsNull(jsonvalue.Find(c.given, name)) }
	for _, name := range o.needs {
		if !has(name) {
			return fmt.Errorf("%s is missing", name)
		}
	}
	may := slices.Concat([]string{"op"}, o.needs, o.may)
	if o.prompt {
		may = append(may, schema.PromptNames...)
	}
	if o.parameters {
		may = append(append(may, "id"), parameter.OwnNames()...)
	}
	for _, m := range c.given {
		foreign := o.parameters && len(schema.ForeignNames(m.Key)) > 0
		if m.Key == "truncate_prompt_tokens" || !slices.Contains(may, m.Key) && !foreign {
			near := ""
			if name := parameter.Nearest(m.Key, may); name != "" {
				near = fmt.Sprintf("; did you mean %s?", name)
			}
			return fmt.Errorf("there is no member %s%s", m.Key, near)
		}
	}
	return nil
}

// numbered returns an open context.
func (s *Contexts) numbered(number int) (*contexts.Context, error) {
	if c := s.open[number]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w: there is no context %d", contexts.ErrClosed, number)
}

// add gives a context that was opened the next number.
func (s *Contexts) add(c *contexts.Context, err error) (answer, error) {
	if err != nil {
		return nil, err
	}
	s.last++
	s.open[s.last] = c
	return answer{"context": s.last, "length": c.Len()}, nil
}

// following is what rows are told that they continue.
const following = "the context"

// rowOf is the row that an object describes: a prompt, which it may lack, and parameters.
func rowOf(object []jsonvalue.Member) (*promptset.Row, error) {
	row, mapping := &record.Builder{Row: &record.Row{}}, &record.Mapping{}
	row.Parent.ID = following
	row.Finish(row.DecodeJSON(object, mapping), mapping)
	return row.Row, row.Err
}

// request is the request that the row of a call makes of its context: its tokens are those that follow the context's.
// whole are the tokens of both.
func (c *call) request() (r *engine.Request, whole []int32, err error) {
	before := c.context.Tokens()
	var from *lineage.Parent // nil: a text at the beginning has the tokens that begin a text
	if len(before) > 0 {
		from = &lineage.Parent{Prompt: before, Results: []completion.Result{{}}}
	} else if c.row.Kind == promptset.KindNone {
		return nil, nil, admit.ErrEmptyPrompt
	}
	requests, err := c.model.builder.Requests(c.row, from)
	if err != nil {
		return nil, nil, err
	}
	r = requests[0]
	whole, r.Tokens = r.Tokens, r.Tokens[len(before):]
	return r, whole, nil
}

// tokens are the tokens of the prompt, which the call must have.
func (c *call) tokens() ([]int32, error) {
	if c.row.Kind == promptset.KindNone {
		return nil, fmt.Errorf("%w: no prompt; give one of %s", admit.ErrInvalidRequest,
			strings.Join(schema.PromptNames, ", "))
	}
	r, _, err := c.request()
	if err != nil {
		return nil, err
	}
	return r.Tokens, nil
}

func info(c *call) (answer, error) {
	plan := c.model.session.Plan()
	return answer{"model": c.model.Job.Model, "page_size": plan.PageSize, "max_model_len": plan.MaxModelLen,
		"vocabulary": c.model.session.Vocab, "layers": len(c.model.session.Config.Layers), "contexts": plan.Contexts,
		"open": append([]int{}, slices.Sorted(maps.Keys(c.open))...), "free_pages": c.all.FreePages()}, nil
}

func appendTokens(c *call) (answer, error) {
	tokens, err := c.tokens()
	if err != nil {
		return nil, err
	}
	return answer{"tokens": listOf(tokens)}, c.context.Append(tokens...)
}

// flush runs the waiting tokens of contexts in the same steps: of those that are named, or of all.
func flush(c *call) (answer, error) {
	want := c.Named
	if c.Context != 0 {
		want = append(want, c.Context)
	}
	if len(want) == 0 {
		want = slices.Sorted(maps.Keys(c.open))
	}
	var chosen []*contexts.Context
	for _, number := range want {
		one, err := c.numbered(number)
		if err != nil {
			return nil, err
		}
		if chosen = append(chosen, one); number == c.Context {
			c.context = one
		}
	}
	return answer{}, c.all.Flush(c.ctx, chosen...)
}

func generate(c *call) (answer, error) {
	r, whole, err := c.request()
	if err != nil {
		return nil, err
	}
	all, err := c.context.Generate(c.ctx, r)
	if err != nil {
		return nil, err
	}
	set := c.model.builder.Parameters(c.row)
	list := make([]json.RawMessage, len(all))
	for i, done := range all {
		result := ask.ResultOf(done)
		result.PromptTokens = len(whole)
		if r.ScorePrompt {
			result.PromptTokenIDs = whole
		}
		list[i] = json.RawMessage("{")
		row := completion.Row{ID: r.ID, Result: &result}
		for column := range completion.Generate.Columns() {
			if !column.OnRequest || column.AskedBy != nil && column.AskedBy(&set) {
				list[i] = column.AppendJSON(jsonvalue.AppendKey(list[i], column.Name), &row)
			}
		}
		list[i] = append(list[i], '}')
	}
	return answer{"completions": list}, nil
}

func score(c *call) (answer, error) {
	tokens, err := c.tokens()
	if err != nil {
		return nil, err
	}
	logprobs, err := c.context.Score(c.ctx, tokens)
	return answer{"tokens": listOf(tokens), "logprobs": numbers(logprobs)}, err
}

func forward(c *call) (answer, error) {
	tokens, err := c.tokens()
	if err != nil {
		return nil, err
	}
	pass := contexts.Pass{Tokens: tokens, Positions: c.Positions, Logits: c.Logits}
	if c.Mask != nil {
		if pass.Sees, err = seesOf(c.Mask, c.context.Len(), len(tokens)); err != nil {
			return nil, err
		}
	}
	logits, err := c.context.Forward(c.ctx, pass)
	list := make([]numbers, len(logits))
	for i, l := range logits {
		list[i] = l
	}
	return answer{"tokens": listOf(tokens), "logits": list}, err
}

// seesOf is the function of a mask: a list for each token that follows length others, with a flag for each place before
// it. What it has of the token itself and of later places does not count.
func seesOf(mask [][]flag, length, tokens int) (func(token, place int) bool, error) {
	if len(mask) != tokens {
		return nil, fmt.Errorf("%w: mask has %d lists for %d tokens", admit.ErrInvalidRequest, len(mask), tokens)
	}
	for i, list := range mask {
		if before := length + i; len(list) < before {
			return nil, fmt.Errorf("%w: mask[%d] has %d flags, and %d places come before its token",
				admit.ErrInvalidRequest, i, len(list), before)
		}
	}
	return func(token, place int) bool { return bool(mask[token-length][place]) }, nil
}

func pages(c *call) (answer, error) {
	n := c.context.Counts()
	return answer{"page_size": c.model.session.Plan().PageSize, "committed": n.Committed, "working": n.Working,
		"reserved": n.Reserved, "shared": n.Shared, "working_tokens": n.WorkingTokens, "waiting": n.Waiting}, nil
}

// materialize answers with keys and values by token, then by KV head.
func materialize(c *call) (answer, error) {
	keys, values, err := c.context.Materialize(c.Layer)
	if err != nil {
		return nil, err
	}
	layer := c.model.session.Config.OfLayer(c.Layer)
	byHead := func(all []float32) [][]numbers {
		tokens := [][]numbers{}
		for token := range slices.Chunk(all, layer.NumKVHeads*layer.HeadDim) {
			var heads []numbers
			for head := range slices.Chunk(token, layer.HeadDim) {
				heads = append(heads, head)
			}
			tokens = append(tokens, heads)
		}
		return tokens
	}
	return answer{"keys": byHead(keys), "values": byHead(values)}, nil
}

// listOf is a list that is not null if it is empty.
func listOf(tokens []int32) []int32 { return append([]int32{}, tokens...) }

// flag is true or false, or 1 or 0.
type flag bool

func (f *flag) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "true", "1":
		*f = true
	case "false", "0":
		*f = false
	default:
		return fmt.Errorf("mask has %s; give 1 or true for a place that is seen, and 0 or false", text)
	}
	return nil
}

// numbers are numbers whose negative infinity is null, since JSON has none.
type numbers []float32

func (n numbers) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, v := range n {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsInf(float64(v), -1) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, float64(v), 'g', -1, 32)
		}
	}
	return append(b, ']'), nil
}
