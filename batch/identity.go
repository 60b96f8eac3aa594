package batch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/storage"
)

// outputVersion grows with every change of Quire after which the same job gives other bytes: other completions, other
// columns, another cut into parts. If keys and values of the same tokens change, the version in snapshots of package
// engine grows too.
const outputVersion = 10

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
func (j *Job) parts(rows int64) promptset.Parts {
	if j.Limit > 0 {
		rows = min(j.Limit, rows)
	}
	size := cmp.Or(j.PartRows, j.cut)
	if size == 0 {
		size = max(1, int64(partCompletions/j.Sampling.N), (rows+maxParts-1)/maxParts)
	}
	return promptset.Parts{Rows: rows, PartRows: size}
}

// inFolders has parts lie in folders as the rows of inputs do.
func inFolders(parts promptset.Parts, inputs []jobstate.Input) promptset.Parts {
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

// callInputs has rows name their files as the job did that was begun.
func (o *Opened) callInputs(was *jobstate.Description) {
	now, names := InputsOf(o.reader), make([]string, len(was.Inputs))
	for i, in := range was.Inputs {
		names[i] = in.Name
	}
	if jobstate.SameInputs(now, was.Inputs) && !slices.EqualFunc(now, was.Inputs,
		func(a, b jobstate.Input) bool { return a.Name == b.Name }) {
		o.reader.Call(names)
	}
}

// describe says what the job is, before its model is opened.
func (j *Job) describe(r *promptset.Reader, parts promptset.Parts, fingerprint string) (*jobstate.Description,
	error) {
	d := &jobstate.Description{OutputVersion: outputVersion, Model: fingerprint, Settings: j.parameters()}
	maps.Copy(d.Settings, map[string]any{
		"format": j.Format, "rows": parts.Rows, "part_rows": parts.PartRows, "backend": j.Engine.Backend,
		"kernels": j.Engine.Kernels,
		"kv":      j.Engine.KV,
	})
	if j.KeepPartitions {
		d.Settings[settingFolders] = true
	}
	if r.HasParents() { // which earlier versions passed through
		d.Settings["parents"] = true
		if j.PromptAs == PromptUser { // also behind `system`, which makes messages of first prompts alone
			d.Settings[settingPromptAs] = j.PromptAs
		}
	}
	if j.Engine.TP > 1 { // sums over devices have another order; replicas change nothing
		d.Settings["tp"] = j.Engine.TP
	}
	if j.Engine.EP > 1 { // so have sums over groups
		d.Settings["ep"] = j.Engine.EP
	}
	if j.Engine.Layers == engine.LayersLoop { // compilers join operations in other ways
		d.Settings["layers"] = j.Engine.Layers
	}
	// These two come under "settled" as what they turned out to be.
	delete(d.Settings, "dtype")
	delete(d.Settings, "kv_dtype")
	if j.ChatTemplate != TemplateOfModel && j.ChatTemplate != TemplateNone {
		text, err := os.ReadFile(j.ChatTemplate)
		if err != nil {
			return nil, fmt.Errorf("`chat-template` is neither model nor none nor a file that can be read: %w", err)
		}
		sum := sha256.Sum256(text)
		d.Settings["chat_template"] = "sha256:" + hex.EncodeToString(sum[:])
	}
	d.Inputs = InputsOf(r)
	return d, nil
}

// InputsOf names the files that a job reads.
func InputsOf(r *promptset.Reader) (inputs []jobstate.Input) {
	for _, s := range r.Sources() {
		inputs = append(inputs, jobstate.Input{Name: s.Name, Bytes: s.Bytes, Rows: s.Rows, Digest: s.Digest,
			Columns: s.FolderColumns()})
	}
	return inputs
}

// open is a view of the sizes that a job leaves to the engine where they are not given, by their names in job.json.
// Completions may depend on each in their last digits.
func (o *Engine) open() map[string]*int {
	return map[string]*int{
		"max_seqs": &o.MaxSeqs, "page_size": &o.PageSize, "max_model_len": &o.MaxModelLen,
		"prefill_tokens": &o.PrefillTokens,
	}
}

// settled is what the engine settled on, for whoever goes on with the job.
func settled(p engine.Plan) map[string]any {
	all := map[string]any{
		"max_seqs": p.MaxSeqs, "page_size": p.PageSize, "max_model_len": p.MaxModelLen,
		"prefill_tokens": p.PrefillTokens,
		"dtype":          strings.ToLower(p.DType), "kv_dtype": strings.ToLower(p.KVDType), "kv_bytes": p.KVBytes,
	}
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == 0 || v == int64(0) || v == "" })
	return all
}

// settle takes what is left open from a job that was begun, and returns how what is given differs from it.
func (o *Engine) settle(was map[string]any) (differences []string, err error) {
	number := func(name string) int64 {
		n, _ := was[name].(json.Number)
		i, _ := n.Int64()
		return i
	}
	open := o.open()
	for _, name := range slices.Sorted(maps.Keys(open)) {
		switch field, then := open[name], int(number(name)); {
		case then == 0:
		case *field == 0:
			*field = then
		case *field != then:
			differences = append(differences, fmt.Sprintf("%s is %d, was %d", name, *field, then))
		}
	}
	// The memory for the cache moves with the machine: what is given holds, and what is not is as before.
	if o.KVMemory == 0 {
		o.KVMemory = number("kv_bytes")
	}
	for name, field := range map[string]*string{"dtype": &o.DType, "kv_dtype": &o.KVDType} {
		then, _ := was[name].(string)
		if then == "" {
			continue
		}
		if *field == "auto" {
			*field = then
			continue
		}
		flag := strings.ReplaceAll(name, "_", "-")
		now, err := parseDType(flag, *field)
		if err != nil {
			return nil, err
		}
		if before, err := parseDType(flag, then); err != nil || now != before {
			differences = append(differences, fmt.Sprintf("%s is %s, was %s", name, *field, then))
		}
	}
	if _, err := parseDType("dtype", o.DType); err != nil {
		return nil, err
	}
	_, err = parseDType(kvDType, o.KVDType)
	slices.Sort(differences)
	return differences, err
}

// settledAs is the job with what it leaves open as a job has it that was begun. Further differences from that one, and
// those that are given, are an error.
func (j *Job) settledAs(p *Process, was map[string]any, differences []string) (*Job, error) {
	next := *j
	more, err := next.Engine.settle(was)
	if err != nil {
		return nil, err
	}
	if differences = append(differences, more...); len(differences) > 0 {
		return nil, p.different(j, differences)
	}
	return &next, nil
}

// sameSettled says that an engine is what the job settled on, but for the memory that it takes.
func sameSettled(now, then map[string]any) bool {
	delete(now, "kv_bytes")
	for name, v := range now {
		if was, ok := then[name]; ok && fmt.Sprint(v) != fmt.Sprint(was) {
			return false
		}
	}
	return true
}

// footer is what the output files say of how they were made.
func (j *Job) footer(version string, s *Session) map[string]string {
	parameters, _ := json.Marshal(j.parameters())
	return map[string]string{
		"quire.version": version, promptset.MetaModel: s.Model, promptset.MetaFingerprint: s.Fingerprint,
		promptset.MetaParameters: string(parameters),
	}
}

// parameters are the settings that the completions depend on.
func (j *Job) parameters() map[string]any {
	all := j.Sampling.Identity()
	maps.Copy(all, map[string]any{
		"chat_template": j.ChatTemplate, "dtype": j.Engine.DType, "kv_dtype": j.Engine.KVDType,
		"weights": j.Engine.Weights,
	})
	if len(j.ServedModels) > 0 {
		all["served_models"] = j.ServedModels
	}
	if len(j.Columns) > 0 {
		all["columns"] = j.Columns
	}
	if len(j.Exclude) > 0 {
		all["exclude_columns"] = j.Exclude
	}
	j.parsers(all)
	j.mappingSettings(all)
	return all
}

// different is the error for a folder with another job.
func (p *Process) different(j *Job, differences []string) error {
	only := ""
	if p.Extend {
		only = "`extend` takes a larger `n-generations`, a larger `limit` and more rows behind those that are there, " +
			"and nothing else. "
	}
	if j.readsStandard() && slices.ContainsFunc(differences, func(s string) bool {
		return strings.HasPrefix(s, "input "+promptset.StandardInput)
	}) {
		only += "Standard input has other rows than the job: give the same rows, or none (</dev/null) to go on with " +
			"those that it has. "
	}
	for _, difference := range differences {
		// The file was there before, and is another one now.
		name, _, has := strings.Cut(strings.TrimPrefix(difference, "input "), " has ")
		if command := promptset.Append(name); has && command != "" {
			only += fmt.Sprintf("A compressed file is compared by its bytes, and not by its rows: give %s as it was "+
				"compressed before; rows are added by %s. ", name, command)
			break
		}
	}
	if slices.ContainsFunc(j.Inputs, storage.ReadOnly) && slices.ContainsFunc(differences, func(s string) bool {
		return strings.HasPrefix(s, "input hf://")
	}) {
		only += "A branch of a dataset has moved, or another one was named: a commit does not move " +
			"(hf://datasets/ORG/NAME@COMMIT/PATH). "
	}
	return fmt.Errorf("%w\n%sGive it the settings it was begun with to go on, or %s",
		&jobstate.DifferentJobError{Output: j.Output, Differences: differences}, only, p.elsewhere())
}

// errForeignParts is the error for parts of no job that is known.
var errForeignParts = errors.New("there are part files and nothing that says which job wrote them")
