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
func (o *Task) needTokenizer(ctx context.Context, model Identity, r *promptset.Reader) error {
	if model.Tokenizer {
		return nil
	}
	row, err := r.FirstText(ctx, o.parts(r.NumRows()).Rows)
	if err != nil || row == nil {
		return err
	}
	const remedy = "take a folder with a tokenizer.json, or rows with prompt_token_ids"
	return row.Error(fmt.Sprintf("the column %s has text, and the model %s has no tokenizer: %s", row.Kind, o.Model,
		remedy))
}

// needDevice looks for the backend's device and plugin, before the model is fetched. A job that was begun may be
// finished, and need neither: there it is told when the model is opened.
func (o *Task) needDevice(ctx context.Context) error {
	if begun, err := BegunJob(ctx, o.Output); err != nil || begun != nil && !o.New {
		return nil // what is wrong with the output is told when it is opened
	}
	return o.Models.Lacks(o.Engine.Backend)
}

// parts cuts the job into parts: what is asked for, or about as many rows as make partCompletions.
func (o *Task) parts(rows int64) folder.Parts {
	if o.Limit > 0 {
		rows = min(o.Limit, rows)
	}
	size := cmp.Or(o.PartRows, o.cut)
	if size == 0 {
		size = max(1, int64(partCompletions/o.Sampling.N), (rows+maxParts-1)/maxParts)
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

// takeCut takes the size of parts from the job in the output folder, if there is one and none is given. What is wrong
// with that job is told when it is opened.
func (o *Task) takeCut(ctx context.Context) {
	if o.PartRows > 0 || o.cut > 0 || o.New {
		return
	}
	begun, err := BegunJob(ctx, o.Output)
	if work, _ := o.workFolder(); !storage.IsRemote(o.Output) && work != "" {
		begun, err = jobstate.Read(o.FS, work)
	}
	if begun == nil || err != nil {
		return
	}
	if parts, _, ok := PartsOf(begun); ok {
		o.cut = parts.PartRows
	}
}

// callInputs has rows name their files as the job did that was begun.
func (j *openedJob) callInputs(was *jobstate.Description) {
	now, names := InputsOf(j.reader), make([]string, len(was.Inputs))
	for i, in := range was.Inputs {
		names[i] = in.Name
	}
	if jobstate.SameInputs(now, was.Inputs) && !slices.EqualFunc(now, was.Inputs,
		func(a, b jobstate.Input) bool { return a.Name == b.Name }) {
		j.reader.Call(names)
	}
}

// describe says what the job is, before its model is opened.
func (o *Task) describe(r *promptset.Reader, parts folder.Parts, fingerprint string) (*jobstate.Description,
	error) {
	d := &jobstate.Description{OutputVersion: outputVersion, Model: fingerprint, Settings: o.parameters()}
	maps.Copy(d.Settings, map[string]any{
		"format": o.Format, "rows": parts.Rows, "part_rows": parts.PartRows, "backend": o.Engine.Backend,
		"kernels": o.Engine.Kernels,
		"kv":      o.Engine.KV,
	})
	if o.KeepPartitions {
		d.Settings[settingFolders] = true
	}
	if r.HasParents() { // which earlier versions passed through
		d.Settings["parents"] = true
		if o.PromptAs == PromptUser { // also behind `system`, which makes messages of first prompts alone
			d.Settings[settingPromptAs] = o.PromptAs
		}
	}
	if o.Engine.TP > 1 { // sums over devices have another order; replicas change nothing
		d.Settings["tp"] = o.Engine.TP
	}
	if o.Engine.EP > 1 { // so have sums over groups
		d.Settings["ep"] = o.Engine.EP
	}
	if o.Engine.Layers == engine.LayersLoop { // compilers join operations in other ways
		d.Settings["layers"] = o.Engine.Layers
	}
	// These two come under "settled" as what they turned out to be.
	delete(d.Settings, "dtype")
	delete(d.Settings, "kv_dtype")
	if o.ChatTemplate != TemplateOfModel && o.ChatTemplate != TemplateNone {
		text, err := os.ReadFile(o.ChatTemplate)
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

// settleAs takes what is left open from a job that was begun; further differences from it, and those that are given,
// are an error.
func (o *Task) settleAs(was map[string]any, differences []string) error {
	more, err := o.Engine.settle(was)
	if err != nil {
		return err
	}
	if differences = append(differences, more...); len(differences) > 0 {
		return o.different(differences)
	}
	return nil
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
func (o *Task) footer(s *Session) map[string]string {
	parameters, _ := json.Marshal(o.parameters())
	return map[string]string{
		"quire.version": o.Version, completion.MetaModel: s.Model, completion.MetaFingerprint: s.Fingerprint,
		completion.MetaParameters: string(parameters),
	}
}

// parameters are the settings that the completions depend on.
func (o *Task) parameters() map[string]any {
	all := o.Sampling.Identity()
	maps.Copy(all, map[string]any{
		"chat_template": o.ChatTemplate, "dtype": o.Engine.DType, "kv_dtype": o.Engine.KVDType,
		"weights": o.Engine.Weights,
	})
	if len(o.ServedModels) > 0 {
		all["served_models"] = o.ServedModels
	}
	if len(o.Columns) > 0 {
		all["columns"] = o.Columns
	}
	if len(o.Exclude) > 0 {
		all["exclude_columns"] = o.Exclude
	}
	o.parsers(all)
	o.mappingSettings(all)
	return all
}

// different is the error for a folder with another job.
func (o *Task) different(differences []string) error {
	only := ""
	if o.Extend {
		only = "`extend` takes a larger `n-generations`, a larger `limit` and more rows behind those that are there, " +
			"and nothing else. "
	}
	if o.readsStandard() && slices.ContainsFunc(differences, func(s string) bool {
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
	if slices.ContainsFunc(o.Inputs, storage.ReadOnly) && slices.ContainsFunc(differences, func(s string) bool {
		return strings.HasPrefix(s, "input hf://")
	}) {
		only += "A branch of a dataset has moved, or another one was named: a commit does not move " +
			"(hf://datasets/ORG/NAME@COMMIT/PATH). "
	}
	return fmt.Errorf("%w\n%sGive it the settings it was begun with to go on, or %s",
		&jobstate.DifferentJobError{Output: o.Output, Differences: differences}, only, o.elsewhere())
}

// errForeignParts is the error for parts of no job that is known.
var errForeignParts = errors.New("there are part files and nothing that says which job wrote them")

// elsewhere is the remedy for an output that has something else, in the words of who can do something about it.
func (o *Task) elsewhere() string {
	switch {
	case o.queued != "":
		return fmt.Sprintf(
			"cancel this job (\"sample cancel %s\") and submit it with another output, or with "+
				"\"sample submit `new`\", which removes what is there", o.queued)
	case !o.Shard.Whole():
		return "choose another `output`, or remove what is there"
	}
	return "choose another `output`, or give `new` to remove what is there"
}
