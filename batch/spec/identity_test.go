package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/engine"
)

// identified are the fields of [Spec] and [Engine] that a job's settings follow from, by how a value of each is
// generated. The parameters in Spec.Sampling are alongside them.
var identified = map[string]func(t *rapid.T) any{
	"ChatTemplate":    of(rapid.SampledFrom([]string{TemplateOfModel, TemplateNone})),
	"PromptColumn":    of(rapid.String()),
	"Template":        of(rapid.String()),
	"System":          of(rapid.String()),
	"Partitions":      of(rapid.SliceOf(rapid.String())),
	"Format":          of(rapid.SampledFrom(promptset.Formats())),
	"Columns":         of(rapid.SliceOf(rapid.String())),
	"Exclude":         of(rapid.SliceOf(rapid.String())),
	"KeepPartitions":  of(rapid.Bool()),
	"ServedModels":    of(rapid.SliceOf(rapid.String())),
	"ReasoningParser": of(rapid.String()),
	"ToolCallParser":  of(rapid.String()),
	"Limit":           of(rapid.Int64Range(1, 3)),
	"IDColumn":        of(rapid.String()),
	"PartRows":        of(rapid.Int64Range(1, 3)),
	"OnSwap":          of(rapid.SampledFrom([]engine.Policy{engine.Finish, engine.Restart, engine.Continue})),
	"Engine.Backend":  of(rapid.String()),
	"Engine.Kernels":  of(rapid.String()),
	"Engine.Layers":   of(rapid.SampledFrom([]string{"unrolled", "loop"})),
	"Engine.Weights":  of(rapid.String()),
	"Engine.KV":       of(rapid.String()),
	"Engine.TP":       of(rapid.IntRange(1, 9)),
	"Engine.EP":       of(rapid.IntRange(1, 9)),
	"Hidden": func(t *rapid.T) any {
		return HiddenStates{Layers: rapid.SliceOf(rapid.Int()).Draw(t, "layers"),
			Tokens: rapid.SampledFrom([]string{"", HiddenAll}).Draw(t, "tokens"),
			DType:  rapid.SampledFrom([]string{"", "f16"}).Draw(t, "type")}
	},
	"Tools": func(t *rapid.T) any {
		return tools.Settings{Registry: rapid.String().Draw(t, "registry"),
			Command:  rapid.StringMatching(".+").Draw(t, "command"),
			MaxTurns: rapid.IntRange(1, 9).Draw(t, "turns"),
			Failures: rapid.SampledFrom([]string{tools.FailuresToModel, tools.FailuresOfRow}).Draw(t, "failures")}
	},
	"Accept": func(t *rapid.T) any {
		return verdict.Settings{Regex: rapid.String().Draw(t, "regex"), Schema: rapid.String().Draw(t, "schema"),
			Equals: rapid.String().Draw(t, "equals"), Command: rapid.String().Draw(t, "command"),
			Extract: rapid.String().Draw(t, "extract"), Until: rapid.IntRange(0, 9).Draw(t, "until"),
			Majority: rapid.Float64Range(0, 1).Draw(t, "majority")}
	},
}

// unidentified are the other fields: of the model's fingerprint and the inputs, of what the job settles on, of where
// files and new weights are, of parameters that Sampling has, and of what changes no byte. PrefixFile and PromptAs are
// of Job.mapping, Task and Embedding of Job.Vectors (see TestVectorsAreIdentified), Scoring
// of Job.Scores (see TestScoresAreIdentified), Adapters of Job.AdapterDigests.
var unidentified = strings.Fields(`Model LoadFormat Inputs Output PrefixFile PromptAs Sampling Given Task Embedding
	Scoring Adapters
	GenerationConfig Engine Engine.DType Engine.KVDType Engine.KVMemory Engine.MaxSeqs Engine.PageSize Engine.MaxModelLen Engine.PrefillTokens
	Engine.MaxRounds Engine.ZeroPages Engine.NoPrefixCache Engine.Speculate Engine.DraftModel Engine.Admission
	Engine.HostKVMemory Engine.Features Engine.DP Watch`)

func of[T any](g *rapid.Generator[T]) func(*rapid.T) any {
	return func(t *rapid.T) any { return g.Draw(t, "value") }
}

func TestEveryFieldIsIdentifiedOrNot(t *testing.T) {
	var fields []string
	for f := range reflect.TypeFor[Spec]().Fields() {
		fields = append(fields, f.Name)
	}
	for f := range reflect.TypeFor[Engine]().Fields() {
		fields = append(fields, "Engine."+f.Name)
	}
	known := slices.Concat(slices.Collect(maps.Keys(identified)), unidentified)
	slices.Sort(fields)
	slices.Sort(known)
	if !slices.Equal(fields, known) {
		t.Errorf("fields %q, of which the test knows %q: does the identity of a job have what is new?", fields, known)
	}
}

// jsonText writes an object with keys in any order, and with escapes.
func jsonText(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		b.WriteByte('{')
		for i, key := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zé<"]{1,4}`), 0, 4,
			rapid.ID[string]).Draw(t, "keys") {
			if i > 0 {
				b.WriteString(rapid.SampledFrom([]string{",", ", "}).Draw(t, "comma"))
			}
			fmt.Fprintf(&b, `"\u%04x%s":`, []rune(key)[0], strings.ReplaceAll(string([]rune(key)[1:]), `"`, `\"`))
			switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
			case kind == 0 && depth > 0:
				b.WriteString(jsonText(depth-1).Draw(t, "object"))
			case kind == 1 && depth > 0:
				fmt.Fprintf(&b, "[1.0, %s]", jsonText(depth-1).Draw(t, "object"))
			default:
				b.WriteString(rapid.SampledFrom([]string{`"\ud83d\ude00\/"`, "1e2", "18446744073709551615", "null",
					"true", `"<a>"`}).Draw(t, "word"))
			}
		}
		return b.String() + "}"
	})
}

// set sets a parameter to some value, which any row or flag may give it.
func set(t *rapid.T, p *parameter.Parameter, to *parameter.Set) {
	text := rapid.StringN(1, 5, -1)
	switch at := p.At(to).(type) {
	case *int:
		*at = rapid.Int().Draw(t, "value")
	case *float64:
		// Without the zero, -0 would stay: the same value as 0, and another text.
		*at = 0 + rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, "value")
	case *uint64:
		*at = rapid.Uint64().Draw(t, "value")
	case *bool:
		*at = rapid.Bool().Draw(t, "value")
	case *string:
		*at = rapid.OneOf(text, jsonText(2)).Draw(t, "value")
	case *[]string:
		*at = rapid.SliceOf(text).Draw(t, "value")
	case *[]int:
		*at = rapid.SliceOf(rapid.Int()).Draw(t, "value")
	case *parameter.ObjectJSON:
		*at = parameter.ObjectJSON(parameter.ParseJSON([]byte(jsonText(2).Draw(t, "value"))))
	case *parameter.ListJSON:
		*at = parameter.ListJSON(parameter.ParseJSON([]byte("[" + jsonText(2).Draw(t, "value") + "]")))
	case *parameter.Biases:
		*at = rapid.MapOf(rapid.Int32Min(0), rapid.Float32Range(-100, 100)).Draw(t, "value")
	case *parameter.Structure:
		var of any = rapid.Permutation([]string{"a", `b"\`, "é\u2028", "<"}).Draw(t, "value")
		kind := rapid.SampledFrom([]parameter.StructureKind{parameter.SchemaStructure, parameter.RegexStructure,
			parameter.ChoiceStructure, parameter.GrammarStructure}).Draw(t, "kind")
		switch kind {
		case parameter.SchemaStructure:
			of = json.RawMessage(jsonText(3).Draw(t, "value"))
		case parameter.RegexStructure, parameter.GrammarStructure:
			of = text.Draw(t, "value")
		}
		s, err := parameter.NewStructure(kind, of)
		if err != nil {
			t.Fatal(err)
		}
		s.Compact, s.AnyOrder = rapid.Bool().Draw(t, "compact"), rapid.Bool().Draw(t, "any order")
		*at = s
	default:
		t.Fatalf("%s is a %T, which the test knows no values of", p.Name, at)
	}
}

// A job that is described, written and read is the same job, whatever its settings are, and with another value of any
// of them it is another job.
func TestIdentityOfEverySetting(t *testing.T) {
	input := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(input, []byte(strings.Repeat("{\"prompt\":\"x\"}\n", 3)), 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := promptset.Open(context.Background(), []string{input})
	if err != nil {
		t.Fatal(err)
	}
	describe := func(t *rapid.T, job *Job) *jobstate.Description {
		d, err := job.Describe(reader, job.Parts(reader.NumRows()), "fingerprint")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	read := func(t *rapid.T, d *jobstate.Description) *jobstate.Description {
		text, err := json.MarshalIndent(d, "", "  ")
		if err == nil {
			d, err = jobstate.Parse(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	// check generates values of all settings of a group for a job, and another value of one of them for a second job.
	check := func(t *testing.T, names []string, draw func(t *rapid.T, name string, job *Job) any) {
		rapid.Check(t, func(t *rapid.T) {
			a := &Job{Spec: Default()}
			a.PartRows = 2
			values := map[string]any{}
			for _, name := range names {
				values[name] = draw(t, name, a)
			}
			b := &Job{Spec: a.Spec}
			changed := rapid.SampledFrom(names).Draw(t, "changed")
			x, y := values[changed], draw(t, changed, b)
			was, now := describe(t, a), describe(t, b)
			if got := describe(t, a).Differences(read(t, was)); len(got) > 0 {
				t.Errorf("of %v: %s", values, got)
			}
			differences, same := now.Differences(read(t, was)), sameJSON(was.Settings, now.Settings)
			if same != (len(differences) == 0) {
				t.Errorf("%s was %v and is %v: %q", changed, x, y, differences)
			}
			if x, y := fmt.Sprintf("%#v", x), fmt.Sprintf("%#v", y); x != y && same && !onlyWritten(x, y) {
				t.Errorf("%s is not in the identity: %s and %s", changed, x, y)
			}
		})
	}
	t.Run("fields", func(t *testing.T) {
		check(t, slices.Sorted(maps.Keys(identified)), func(t *rapid.T, name string, job *Job) any {
			v, field := reflect.ValueOf(&job.Spec).Elem(), strings.TrimPrefix(name, "Engine.")
			if field != name {
				v = v.FieldByName("Engine")
			}
			value := identified[name](t)
			v.FieldByName(field).Set(reflect.ValueOf(value))
			return value
		})
	})
	byType, parameters := map[parameter.Type][]string{}, map[string]*parameter.Parameter{}
	for p := range parameter.Own() {
		if p.Flag != "" { // else rows alone give it
			byType[p.Type()] = append(byType[p.Type()], p.Name)
			parameters[p.Name] = p
		}
	}
	for kind, names := range byType {
		t.Run(kind.String(), func(t *testing.T) {
			check(t, names, func(t *rapid.T, name string, job *Job) any {
				set(t, parameters[name], &job.Sampling)
				job.Sampling.N = max(job.Sampling.N, 1)
				return reflect.ValueOf(parameters[name].At(&job.Sampling)).Elem().Interface()
			})
		})
	}
}

// sameJSON reports whether settings are written alike.
func sameJSON(a, b jobstate.Settings) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// onlyWritten reports whether two values are those of one setting: none, and a list without items.
func onlyWritten(x, y string) bool {
	none := func(s string) bool { return strings.HasSuffix(s, "{}") || strings.HasSuffix(s, "(nil)") }
	return none(x) && none(y)
}
