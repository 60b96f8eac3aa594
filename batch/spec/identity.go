package spec

import (
	"cmp"
	"encoding/json"
	"os"
	"strconv"
	"strings"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
)

// outputVersion grows with every change of Quire after which the same job gives other bytes: other completions, other
// columns, another cut into parts. If keys and values of the same tokens change, the version in snapshots of package
// engine grows too.
const outputVersion = 13

// Describe reports what the job is, before its model is opened.
func (j *Job) Describe(r *promptset.Reader, parts folder.Parts, fingerprint string) (*jobstate.Description,
	error) {
	settings := j.settings(parts, r.HasParents())
	if j.ChatTemplate != TemplateOfModel && j.ChatTemplate != TemplateNone {
		text, err := os.ReadFile(j.ChatTemplate)
		if err != nil {
			return nil, setting.Errorf("`chat-template` is neither model nor none nor a file that can be read: %w", err)
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

// Settled is what the engine settled on, for the processes that continue the job.
func Settled(p engine.Plan) jobstate.Settled {
	return jobstate.Settled{DType: strings.ToLower(p.DType), KVBytes: p.KVBytes, KVDType: strings.ToLower(p.KVDType),
		MaxModelLen: p.MaxModelLen, MaxSeqs: p.MaxSeqs, PageSize: p.PageSize, PrefillTokens: p.PrefillTokens}
}

// SettledAs returns the engine with the settings that it leaves open set as in a job that was started, and how the
// given settings differ from that. Completions may depend on each of these in their last digits.
func (e Engine) SettledAs(was jobstate.Settled) (_ Engine, differences jobstate.Differences, err error) {
	for _, size := range []struct { // in the order of their names
		name  string
		field *int
		then  int
	}{{SettingMaxModelLen, &e.MaxModelLen, was.MaxModelLen}, {"max_seqs", &e.MaxSeqs, was.MaxSeqs},
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

// ShapeOf is the shape of the job's output, for rows of an input. An input of nil is not known.
func (j *Job) ShapeOf(input *promptset.Schema) completion.Shape {
	return completion.Shape{Task: j.Task, Requested: j.ColumnsOf(input), Excluded: j.ExcludedColumns(),
		JSON: j.JSONType(), Vectors: j.Vectors.VectorType}
}

// Footer is what the output files record of how they were made.
func (j *Job) Footer(version, model, fingerprint string) map[string]string {
	parameters, _ := json.Marshal(j.Parameters())
	meta := map[string]string{
		"quire.version": version, completion.MetaModel: model, completion.MetaFingerprint: fingerprint,
		completion.MetaParameters: string(parameters),
	}
	if scale := j.Vectors.Scale(); scale != 0 {
		meta[completion.MetaScale] = strconv.FormatFloat(scale, 'g', -1, 64)
	}
	if j.Task == completion.Classify {
		labels, _ := json.Marshal(j.Scores.Labels)
		meta[completion.MetaLabels] = string(labels)
	}
	return meta
}
