package completion

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

// Judgment is what a job's verifiers decided about a completion.
type Judgment uint8

// The judgments. A completion whose verifier failed is unjudged and has an error.
const (
	Unjudged Judgment = iota
	Rejected
	Accepted
)

// UnmarshalJSON reads true, false, or null for unjudged.
func (j *Judgment) UnmarshalJSON(raw []byte) error {
	if *j = Unjudged; bytes.Equal(raw, []byte("null")) {
		return nil
	}
	var accepted bool
	err := json.Unmarshal(raw, &accepted)
	if err == nil {
		*j = judgmentOf(accepted)
	}
	return err
}

func judgmentOf(accepted bool) Judgment {
	if accepted {
		return Accepted
	}
	return Rejected
}

var judgmentForm = scalarForm[Judgment]{typ: parquet.BooleanType,
	json:   func(b []byte, j Judgment) []byte { return strconv.AppendBool(b, j == Accepted) },
	value:  func(j Judgment) parquet.Value { return parquet.BooleanValue(j == Accepted) },
	decode: func(v parquet.Value) Judgment { return judgmentOf(v.Boolean()) }}

// judgedColumns are the columns of a job that judges completions. They come after all others.
var judgedColumns = []Column{
	{Name: "accepted", Doc: "whether the job's verifiers accept the completion, or, with --until-majority, whether " +
		"it agrees with the majority; null if there is an error", OnRequest: true, ByJob: "judges completions",
		form: judgmentForm, pointer: func(o *Row) any { return &o.Judgment },
		null: func(o *Row) bool { return o.Judgment == Unjudged }},
	{Name: "verdict", Doc: "what the verifier said: the text that matched or was compared, why the text is not of " +
		"the schema, or the command's own words; null if it said nothing", OnRequest: true, ByJob: "judges completions",
		form: textForm, pointer: func(o *Row) any { return &o.Verdict }, varied: true,
		null: func(o *Row) bool { return o.Verdict == "" }},
}

// JudgedColumns returns the names of the columns of a job that judges completions.
func JudgedColumns() []string { return namesIn(judgedColumns) }

func namesIn(columns []Column) (names []string) {
	for _, c := range columns {
		names = append(names, c.Name)
	}
	return names
}

// verdictExtra has the judgment before the verdict's text.
var verdictExtra = extra{tag: 20, has: func(r *Result) bool { return r.Judgment != Unjudged || r.Verdict != "" },
	append: func(b []byte, r *Result) []byte { return appendString(append(b, byte(r.Judgment)), r.Verdict) },
	read: func(d *resultDecoder, r *Result) {
		if len(d.b) == 0 || d.b[0] > byte(Accepted) {
			d.fail()
			return
		}
		r.Judgment, d.b = Judgment(d.b[0]), d.b[1:]
		if r.Verdict = d.text(); r.Judgment == Unjudged && r.Verdict == "" { // has no such extra
			d.fail()
		}
	}}
