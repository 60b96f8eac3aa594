package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/promptset/completion"
	"github.com/quire/quire/promptset/folder"
	"github.com/quire/quire/storage"
)

// outputVersion grows with every change of Quire after which the same job gives other bytes: other completions, other
// columns, another cut into parts. If keys and values of the same tokens change, the version in snapshots of package
// engine grows too.
const outputVersion = 11

const (
	// partCompletions is about how many completions a part has, unless --part-rows says how many rows.
	partCompletions = 16_384
	// maxParts keeps the names of parts in order; parts of larger jobs are larger.
	maxParts = 50_000
)

// needTokenizer refuses rows of text for a model without a tokenizer, before it is loaded: each row would be an error.
func (j *Job) needTokenizer(ctx context.Context, model Identity, r *promptset.Reader) error {
	if model.Tokenizer {
		return nil
	}
	row, err := r.FirstText(ctx, j.parts(r.NumRows()).Rows)
	if err != nil || row == nil {
		return err
	}
	const remedy = "take a folder with a tokenizer.json, or rows with prompt_token_ids"
	return row.Error(fmt.Sprintf("the column %s has text, and the model %s has no tokenizer: %s", row.Kind, j.Model,
		remedy))
}

// needDevice looks for the backend's device and plugin, before the model is fetched. A job that was begun may be
// finished, and need neither: there it is told when the model is opened.
func needDevice(ctx context.Context, p *Process, j *Job) error {
	if begun, err := BegunJob(ctx, j.Output); err != nil || begun != nil && !p.New {
		return nil // what is wrong with the output is told when it is opened
	}
	return p.Models.Lacks(j.Engine.Backend)
}

// parts cuts the job into parts: what is asked for, or about as many rows as make partCompletions.
func (j *Job) parts(rows int64) folder.Parts {
	if j.Limit > 0 {
		rows = min(j.Limit, rows)
	}
	size := cmp.Or(j.PartRows, j.cut)
	if size == 0 {
		size = max(1, int64(partCompletions/j.Sampling.N), (rows+maxParts-1)/maxParts)
	}
	return folder.Parts{Rows: rows, PartRows: size}
}

// inFolders has parts lie in folders as the rows of inputs do.
func inFolders(parts folder.Parts, inputs []jobstate.Input) folder.Parts {
	folders, rows := make([]string, len(inputs)), make([]int64, len(inputs))
	for i, in := range inputs {
		folders[i], rows[i] = in.Columns, in.Rows
	}
	return parts.In(folders, rows)
}

// cutAsBegun is the job cut into parts as the one in the output folder, if there is one and no size is given. What is
// wrong with that job is told when it is opened.
func cutAsBegun(ctx context.Context, p *Process, j *Job) *Job {
	if j.PartRows > 0 || j.cut > 0 || p.New {
		return j
	}
	begun, err := BegunJob(ctx, j.Output)
	if work, _ := p.workFolder(j); !storage.IsRemote(j.Output) && work != "" {
		begun, err = jobstate.Read(p.FS, work)
	}
	if begun == nil || err != nil {
		return j
	}
	if parts, _, ok := PartsOf(begun); ok {
		next := *j
		next.cut = parts.PartRows
		return &next
	}
	return j
}

// describe says what the job is, before its model is opened.
func (j *Job) describe(r *promptset.Reader, parts folder.Parts, fingerprint string) (*jobstate.Description,
	error) {
	settings := j.settings(parts, r.HasParents())
	if j.ChatTemplate != TemplateOfModel && j.ChatTemplate != TemplateNone {
		text, err := os.ReadFile(j.ChatTemplate)
		if err != nil {
			return nil, fmt.Errorf("`chat-template` is neither model nor none nor a file that can be read: %w", err)
		}
		settings.ChatTemplate = digestOf(text)
	}
	return &jobstate.Description{OutputVersion: outputVersion, Model: fingerprint, Settings: j.withSampling(settings),
		Inputs: InputsOf(r)}, nil
}

// InputsOf names the files that a job reads.
func InputsOf(r *promptset.Reader) (inputs []jobstate.Input) {
	for _, s := range r.Sources() {
		inputs = append(inputs, jobstate.Input{Name: s.Name, Bytes: s.Bytes, Rows: s.Rows, Digest: s.Digest,
			Columns: s.FolderColumns()})
	}
	return inputs
}

// settled is what the engine settled on, for whoever goes on with the job.
func settled(p engine.Plan) jobstate.Settled {
	return jobstate.Settled{DType: strings.ToLower(p.DType), KVBytes: p.KVBytes, KVDType: strings.ToLower(p.KVDType),
		MaxModelLen: p.MaxModelLen, MaxSeqs: p.MaxSeqs, PageSize: p.PageSize, PrefillTokens: p.PrefillTokens}
}

// settledAs is the engine with what it leaves open as a job has it that was begun, and how what is given differs from
// that. Completions may depend on each of these in their last digits.
func (e Engine) settledAs(was jobstate.Settled) (_ Engine, differences jobstate.Differences, err error) {
	for _, size := range []struct { // in the order of their names
		name  string
		field *int
		then  int
	}{{settledLength, &e.MaxModelLen, was.MaxModelLen}, {"max_seqs", &e.MaxSeqs, was.MaxSeqs},
		{"page_size", &e.PageSize, was.PageSize}, {"prefill_tokens", &e.PrefillTokens, was.PrefillTokens}} {
		switch {
		case size.then == 0:
		case *size.field == 0:
			*size.field = size.then
		case *size.field != size.then:
			differences = append(differences, jobstate.Differ(size.name, *size.field, size.then))
		}
	}
	// The memory for the cache moves with the machine: what is given holds, and what is not is as before.
	e.KVMemory = cmp.Or(e.KVMemory, was.KVBytes)
	types := jobstate.Differences{}
	for _, t := range []struct {
		name, field string
		now         *string
		then        string
	}{{"dtype", "dtype", &e.DType, was.DType}, {"kv_dtype", kvDType, &e.KVDType, was.KVDType}} {
		now, err := parseDType(t.field, *t.now)
		switch {
		case err != nil:
			return e, nil, err
		case t.then == "":
		case *t.now == "auto":
			*t.now = t.then
			if _, err := parseDType(t.field, t.then); err != nil {
				return e, nil, err
			}
		default:
			if before, err := parseDType(t.field, t.then); err != nil || now != before {
				types = append(types, jobstate.Differ(t.name, *t.now, t.then))
			}
		}
	}
	return e, append(types, differences...), nil // by name
}

// settledAs is the job with what it leaves open as a job has it that was begun. Further differences from that one, and
// those that are given, are an error.
func (j *Job) settledAs(p *Process, was jobstate.Settled, differences jobstate.Differences) (*Job, error) {
	next, err := *j, error(nil)
	var more jobstate.Differences
	if next.Engine, more, err = j.Engine.settledAs(was); err != nil {
		return nil, err
	}
	if differences = append(differences, more...); len(differences) > 0 {
		return nil, p.different(j, differences)
	}
	return &next, nil
}

// footer is what the output files say of how they were made.
func (j *Job) footer(version, model, fingerprint string) map[string]string {
	parameters, _ := json.Marshal(j.parameters())
	return map[string]string{
		"quire.version": version, completion.MetaModel: model, completion.MetaFingerprint: fingerprint,
		completion.MetaParameters: string(parameters),
	}
}

// different is the error for a folder with another job.
func (p *Process) different(j *Job, differences jobstate.Differences) error {
	only := ""
	if p.Extend {
		only = "`extend` takes a larger `n-generations`, a larger `limit` and more rows behind those that are there, " +
			"and nothing else. "
	}
	ofInput := func(is func(name string) bool) func(jobstate.Difference) bool {
		return func(d jobstate.Difference) bool { return d.OfInput() && is(d.Name) }
	}
	if j.readsStandard() && slices.ContainsFunc(differences, ofInput(func(name string) bool {
		return name == promptset.StandardInput
	})) {
		only += "Standard input has other rows than the job: give the same rows, or none (</dev/null) to go on with " +
			"those that it has. "
	}
	for _, d := range differences {
		if command := promptset.Append(d.Name); d.Of == jobstate.InputContent && command != "" {
			only += fmt.Sprintf("A compressed file is compared by its bytes, and not by its rows: give %s as it was "+
				"compressed before; rows are added by %s. ", d.Name, command)
			break
		}
	}
	if slices.ContainsFunc(j.Inputs, storage.ReadOnly) && slices.ContainsFunc(differences,
		ofInput(func(name string) bool { return strings.HasPrefix(name, "hf://") })) {
		only += "A branch of a dataset has moved, or another one was named: a commit does not move " +
			"(hf://datasets/ORG/NAME@COMMIT/PATH). "
	}
	return fmt.Errorf("%w\n%sGive it the settings it was begun with to go on, or %s",
		&jobstate.DifferentJobError{Output: j.Output, Differences: differences}, only, p.elsewhere())
}

// errForeignParts is the error for parts of no job that is known.
var errForeignParts = errors.New("there are part files and nothing that says which job wrote them")
