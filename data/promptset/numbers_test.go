package promptset

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/parameter/parametertest"
	"github.com/quire/quire/data/promptset/jsonvalue"
)

// remedies are how errors state what to do.
var remedies = regexp.MustCompile(`must be|must fit|; give|; keep|; write`)

// wantNumber compares a row's parameter with how its value must be treated. where is what errors name.
func wantNumber(t testing.TB, row *Row, p *parameter.Parameter, what, where string, want parametertest.Outcome,
	value any) {
	t.Helper()
	got, failure := row.Overrides.Value(p), row.Err
	if failure == nil {
		set := row.Overrides.Over(parameter.Defaults())
		if err := set.Check(row.ParameterName); err != nil {
			failure = row.Error(err.Error())
		}
	}
	if f, is := got.(float64); is && f != f {
		got = "NaN"
	}
	if f, is := value.(float64); is && f != f {
		value = "NaN"
	}
	ok := false
	switch want {
	case parametertest.Absent:
		ok = failure == nil && got == nil
	case parametertest.Taken:
		ok = failure == nil && got == value
	case parametertest.OutOfRange:
		ok = failure != nil && got == value
	case parametertest.Mistyped:
		ok = failure != nil
	}
	if !ok {
		t.Errorf("%s %s is %v, %v; want %v %v", p.Name, what, got, failure, want, value)
	}
	if failure == nil {
		return
	}
	text, named := strings.CutPrefix(failure.Error(), where+": ")
	if !named || !strings.HasPrefix(text, p.Name+" is ") || !remedies.MatchString(text) {
		t.Errorf("%s %s: the error %q names not the file, the row, the parameter and a remedy", p.Name, what, failure)
	}
}

// Each numeric parameter in a JSONL file, at the ends of its range and at odd values.
func TestNumbersInJSONL(t *testing.T) {
	var lines []string
	var of []*parameter.Parameter
	var values []string
	for p := range parametertest.Numbers() {
		for _, v := range parametertest.Probes(p) {
			lines = append(lines, fmt.Sprintf(`{"prompt": "a", %q: %s}`, p.Name, v))
			of, values = append(of, p), append(values, v)
		}
	}
	path := write(t, "in.jsonl", strings.Join(lines, "\n"))
	for i, row := range rows(t, open(t, path)) {
		want, value := parametertest.Want(of[i], values[i])
		wantNumber(t, row, of[i], values[i], fmt.Sprintf("%s line %d", path, i+1), want, value)
	}
	if len(lines) < 500 {
		t.Errorf("%d rows", len(lines))
	}
}

// columnOf is a type that columns of numbers have.
type columnOf struct {
	node     parquet.Node
	bits     int // of an integer; 0 for floats
	unsigned bool
}

// The same as columns of a Parquet file, of each type that numbers have.
func TestNumbersInParquet(t *testing.T) {
	var params []*parameter.Parameter
	for p := range parametertest.Numbers() {
		params = append(params, p)
	}
	for name, of := range map[string]columnOf{
		"double": {parquet.Leaf(parquet.DoubleType), 0, false}, "float": {parquet.Leaf(parquet.FloatType), 0, false},
		"int64": {parquet.Leaf(parquet.Int64Type), 64, false}, "int32": {parquet.Leaf(parquet.Int32Type), 32, false},
		"int8": {parquet.Int(8), 8, false}, "uint64": {parquet.Uint(64), 64, true},
		"uint32": {parquet.Uint(32), 32, true},
	} {
		t.Run(name, func(t *testing.T) { numbersInParquet(t, params, of) })
	}
}

func numbersInParquet(t *testing.T, params []*parameter.Parameter, of columnOf) {
	group := parquet.Group{"prompt": parquet.String()}
	for _, p := range params {
		group[p.Name] = parquet.Optional(of.node)
	}
	schema := parquet.NewSchema("rows", group)
	path := filepath.Join(t.TempDir(), "in.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := parquet.NewWriter(f, schema)
	type cell struct {
		of    *parameter.Parameter
		value parquet.Value
		text  string // of the value
	}
	var cells []cell
	for _, p := range params {
		for _, text := range append(parametertest.Probes(p), "NaN", "Inf", "-Inf") {
			v, ok := of.value(text)
			if !ok {
				continue
			}
			cells = append(cells, cell{p, v, text})
			row := make(parquet.Row, len(schema.Fields()))
			for i, field := range schema.Fields() {
				switch field.Name() {
				case "prompt":
					row[i] = parquet.ByteArrayValue([]byte("a")).Level(0, 0, i)
				case p.Name:
					level := 1
					if v.IsNull() {
						level = 0
					}
					row[i] = v.Level(0, level, i)
				default:
					row[i] = parquet.NullValue().Level(0, 0, i)
				}
			}
			if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for i, row := range rows(t, open(t, path)) {
		c := cells[i]
		want, value := of.want(c.of, c.value, c.text)
		wantNumber(t, row, c.of, c.text, fmt.Sprintf("%s row %d", path, i), want, value)
	}
}

// value returns a number as a column has it; ok is false where it has no such number.
func (c columnOf) value(text string) (v parquet.Value, ok bool) {
	switch kind := c.node.Type().Kind(); {
	case text == "null":
		return parquet.NullValue(), true
	case c.bits == 0:
		f, err := strconv.ParseFloat(text, 64)
		if kind == parquet.Float {
			return parquet.FloatValue(float32(f)), err == nil
		}
		return parquet.DoubleValue(f), err == nil
	case c.unsigned:
		u, err := strconv.ParseUint(text, 10, c.bits)
		if kind == parquet.Int32 {
			return parquet.Int32Value(int32(u)), err == nil
		}
		return parquet.Int64Value(int64(u)), err == nil
	default:
		i, err := strconv.ParseInt(text, 10, c.bits)
		if kind == parquet.Int32 {
			return parquet.Int32Value(int32(i)), err == nil
		}
		return parquet.Int64Value(i), err == nil
	}
}

// want is parametertest.Want for a value of the column.
func (c columnOf) want(p *parameter.Parameter, v parquet.Value, text string) (parametertest.Outcome, any) {
	switch {
	case v.IsNull() || c.bits > 0:
		return parametertest.Want(p, text)
	case v.Kind() == parquet.Double:
		return parametertest.WantFloat(p, v.Double(), 1<<53)
	}
	// The shortest decimal of a float32 is meant, unless that is larger than any.
	f, err := strconv.ParseFloat(strconv.FormatFloat(float64(v.Float()), 'g', -1, 32), 64)
	if err != nil || math.Abs(f) > math.MaxFloat32 {
		f = float64(v.Float())
	}
	return parametertest.WantFloat(p, f, 1<<24)
}

// Columns of other types are refused with the file, the column and the type that is wanted.
func TestNumbersOfOtherTypes(t *testing.T) {
	for p := range parametertest.Numbers() {
		for _, kind := range []parquet.Node{parquet.String(), parquet.Leaf(parquet.BooleanType),
			parquet.List(parquet.Leaf(parquet.Int64Type)), parquet.Date()} {
			path := filepath.Join(t.TempDir(), "in.parquet")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			schema := parquet.NewSchema("rows", parquet.Group{"prompt": parquet.String(),
				p.Name: parquet.Optional(kind)})
			if err := parquet.NewWriter(f, schema).Close(); err != nil {
				t.Fatal(err)
			}
			f.Close()
			_, err = Open(t.Context(), []string{path})
			if err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), p.Name) ||
				!strings.Contains(err.Error(), p.Type().String()) {
				t.Errorf("%s as %s: %v", p.Name, kind, err)
			}
		}
	}
}

// FuzzNumbers reads any JSON value of any numeric parameter of a line.
func FuzzNumbers(f *testing.F) {
	var params []*parameter.Parameter
	for p := range parametertest.Numbers() {
		for _, v := range parametertest.Probes(p) {
			f.Add(uint8(len(params)), v)
		}
		params = append(params, p)
	}
	path := filepath.Join(f.TempDir(), "in.jsonl")
	f.Fuzz(func(t *testing.T, at uint8, value string) {
		if !json.Valid([]byte(value)) || strings.ContainsAny(value, "\n\r") ||
			jsonvalue.HasLoneSurrogate([]byte(value)) {
			t.Skip()
		}
		p := params[int(at)%len(params)]
		line := strings.ToValidUTF8(fmt.Sprintf(`{"prompt": "a", %q: %s}`, p.Name, value), "")
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows(t, open(t, path)) {
			want, meant := parametertest.Want(p, value)
			if row.Err != nil && strings.Contains(row.Err.Error(), "twice") { // in an object
				t.Skip()
			}
			wantNumber(t, row, p, value, path+" line 1", want, meant)
		}
	})
}
