package main

import (
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
)

// outputVersion grows with every change of Quire after which the same job gives other bytes: other completions, other
// columns, another cut into parts.
const outputVersion = 3

const (
	// partCompletions is about how many completions a part has, unless --part-rows says how many rows.
	partCompletions = 16_384
	// maxParts keeps the names of parts in order; parts of larger jobs are larger.
	maxParts = 50_000
)

// identifyModel returns what is known of the model by its files. It reads a few kilobytes of each tensor.
func identifyModel(ctx context.Context, env *environment, o *runOptions) (identity, error) {
	model, err := openModel(ctx, env, o.model, o.loadFormat)
	if err != nil {
		return identity{}, err
	}
	known := identity{fingerprint: model.FingerPrint(), tokenizer: model.TokenizerSource() != ""}
	return known, model.Close()
}

// needTokenizer refuses rows of text for a model without a tokenizer, before it is loaded: each row would be an error.
func (o *runOptions) needTokenizer(ctx context.Context, model identity, r *promptset.Reader) error {
	if model.tokenizer {
		return nil
	}
	row, err := r.FirstText(ctx, o.parts(r.NumRows()).Rows)
	if err != nil || row == nil {
		return err
	}
	const remedy = "take a folder with a tokenizer.json, or rows with prompt_token_ids"
	return row.Error(fmt.Sprintf("the column %s has text, and the model %s has no tokenizer: %s", row.Kind, o.model,
		remedy))
}

// needDevice looks for the backend's device and plugin, before the model is fetched. A job that was begun may be
// finished, and need neither: there it is told when the model is opened.
func (o *runOptions) needDevice(ctx context.Context, env *environment) error {
	if env.lacks == nil {
		return nil
	}
	if begun, err := begunJob(ctx, o); err != nil || begun != nil && !o.anew {
		return nil // what is wrong with the output is told when it is opened
	}
	return env.lacks(o.backend)
}

// parts cuts the job into parts: what is asked for, or about as many rows as make partCompletions.
func (o *runOptions) parts(rows int64) promptset.Parts {
	if o.limit > 0 {
		rows = min(o.limit, rows)
	}
	size := o.partRows
	if size == 0 {
		size = max(1, int64(partCompletions/o.sampling.N), (rows+maxParts-1)/maxParts)
	}
	return promptset.Parts{Rows: rows, PartRows: size}
}

// describe says what the job is, before its model is opened.
func (o *runOptions) describe(r *promptset.Reader, parts promptset.Parts, fingerprint string) (*jobstate.Description,
	error) {
	d := &jobstate.Description{OutputVersion: outputVersion, Model: fingerprint, Settings: o.parameters()}
	maps.Copy(d.Settings, map[string]any{
		"format": o.format, "rows": parts.Rows, "part_rows": parts.PartRows, "backend": o.backend, "kernels": o.kernels,
		"kv": o.kv,
	})
	if o.parallel.tp > 1 { // sums over devices have another order; replicas change nothing
		d.Settings["tp"] = o.parallel.tp
	}
	if o.layers == engine.LayersLoop { // compilers join operations in other ways
		d.Settings["layers"] = o.layers
	}
	// These two come under "settled" as what they turned out to be.
	delete(d.Settings, "dtype")
	delete(d.Settings, "kv_dtype")
	if o.chatTemplate != "model" && o.chatTemplate != "none" {
		text, err := os.ReadFile(o.chatTemplate)
		if err != nil {
			return nil, fmt.Errorf("--chat-template is neither model nor none nor a file that can be read: %w", err)
		}
		sum := sha256.Sum256(text)
		d.Settings["chat_template"] = "sha256:" + hex.EncodeToString(sum[:])
	}
	d.Inputs = inputsOf(r)
	return d, nil
}

// inputsOf names the files that a job reads.
func inputsOf(r *promptset.Reader) (inputs []jobstate.Input) {
	for _, s := range r.Sources() {
		inputs = append(inputs, jobstate.Input{Name: s.Name, Bytes: s.Bytes, Rows: s.Rows, Digest: s.Digest})
	}
	return inputs
}

// settings is a view of the options that a job leaves to the engine where they are not given, by their names in
// job.json. Completions may depend on each in their last digits.
func (o *runOptions) open() map[string]*int {
	return map[string]*int{
		"max_seqs": &o.maxSeqs, "page_size": &o.pageSize, "max_model_len": &o.maxModelLen,
		"prefill_tokens": &o.prefillTokens,
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
func (o *runOptions) settle(was map[string]any) (differences []string, err error) {
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
	if o.kvBytes == 0 {
		o.kvBytes = number("kv_bytes")
	}
	for name, field := range map[string]*string{"dtype": &o.dtype, "kv_dtype": &o.kvDType} {
		then, _ := was[name].(string)
		if then == "" {
			continue
		}
		if *field == "auto" {
			*field = then
			continue
		}
		now, err := parseDType(name, *field)
		if err != nil {
			return nil, err
		}
		if before, err := parseDType(name, then); err != nil || now != before {
			differences = append(differences, fmt.Sprintf("%s is %s, was %s", name, *field, then))
		}
	}
	if o.weightsType, err = parseDType("dtype", o.dtype); err != nil {
		return nil, err
	}
	o.kvType, err = parseDType("kv-dtype", o.kvDType)
	slices.Sort(differences)
	return differences, err
}

// footer is what the output files say of how they were made.
func (o *runOptions) footer(s *session) map[string]string {
	parameters, _ := json.Marshal(o.parameters())
	return map[string]string{
		"quire.version": quireVersion(), "quire.model": s.model, "quire.model_fingerprint": s.fingerprint,
		"quire.parameters": string(parameters),
	}
}

// heldWeights is --weights as the engine has it.
func (o *runOptions) heldWeights() string {
	if o.weights == "auto" {
		return ""
	}
	return o.weights
}

// parameters are the settings that the completions depend on.
func (o *runOptions) parameters() map[string]any {
	all := o.sampling.Identity()
	maps.Copy(all, map[string]any{
		"chat_template": o.chatTemplate, "dtype": o.dtype, "kv_dtype": o.kvDType, "weights": o.weights,
	})
	if len(o.columns) > 0 {
		all["columns"] = o.columns
	}
	return all
}

// different is the error for a folder with another job.
func (o *runOptions) different(differences []string) error {
	return fmt.Errorf("%w. Give it the settings it was begun with to go on, or %s",
		&jobstate.DifferentJobError{Output: o.output, Differences: differences}, o.elsewhere())
}

// errForeignParts is the error for parts of no job that is known.
var errForeignParts = errors.New("there are part files and nothing that says which job wrote them")

// elsewhere is the remedy for an output that has something else, in the words of who can do something about it.
func (o *runOptions) elsewhere() string {
	switch {
	case o.job != "":
		return fmt.Sprintf(
			`cancel this job ("sample cancel %s") and submit it with another output, or with "sample submit --new", which removes what is there`, o.job)
	case !o.shard.Whole():
		return "choose another --output, or remove what is there"
	}
	return "choose another --output, or give --new to remove what is there"
}
