package table

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
)

// decodeKnown sets one known field of the row.
func (r *groupReader) decodeKnown(row *record.Builder, name string, c *schema.Node) {
	first := r.columns[c.Column][0]
	switch name {
	case "prompt":
		if !first.IsNull() {
			row.Prompt = row.Text(name, first.ByteArray())
		}
	case "messages":
		r.messages(row, c)
	case "prompt_token_ids":
		r.tokens(row, c)
	case schema.IDName:
		row.ID = idOf(row, name, first, c)
	case schema.ParentName:
		row.Parent.ID = idOf(row, name, first, c)
	case "parent_generation", "parent_length":
		if !first.IsNull() {
			row.ParentNumber(name, numberOf(first, c.Type))
		}
	default:
		r.parameter(row, parameter.Sink(name), c)
	}
}

// idOf reads the id of a row. In a column of floats, which data frames use for integers with nulls, NaN is null.
func idOf(row *record.Builder, name string, v parquet.Value, c *schema.Node) string {
	switch {
	case v.IsNull():
		return ""
	case schema.IsDecimal(c.Type), schema.IsUUID(c):
		id, raw := "", schema.AppendValue(nil, v, c.Type)
		if schema.IsDecimal(c.Type) {
			raw = bytes.Trim(raw, `"`)
		}
		if !jsonvalue.ParseID(raw, &id) {
			row.LostID = row.LostID || name == schema.IDName
			row.Fail("%s is %s; give text or a whole number", name, raw)
		}
		return id
	case v.Kind() == parquet.ByteArray:
		if name == schema.IDName && !utf8.Valid(v.ByteArray()) {
			row.LostID = true
			row.Text(name, v.ByteArray())
			return ""
		}
		return row.Text(name, v.ByteArray())
	}
	n := numberOf(v, c.Type)
	if n.Float != n.Float {
		return ""
	}
	w, ok := n.Whole()
	if !ok {
		row.Fail("%s is %v, which is not a whole number that a column of floats holds exactly; give text or an integer",
			name, n)
	}
	return w.String()
}

// foreign returns the values that the table of parameters judges, as JSON, so that they mean the same in all formats.
func (r *groupReader) foreign(row *record.Builder) (values []record.Foreign) {
	var a *schema.Assembler
	for _, c := range r.table.foreign {
		if !r.present(c) {
			continue
		}
		if a == nil {
			a = &schema.Assembler{Values: r.values}
			a.Index()
		}
		raw := a.Append(nil, c)
		if c.IsLeaf && schema.IsDecimal(c.Type) {
			raw = bytes.Trim(raw, `"`)
		}
		if jsonvalue.IsNull(raw) {
			row.Fail("%s is not a finite number; give one, or null", c.Name)
			continue
		}
		for _, p := range schema.ForeignNames(c.Name) {
			values = append(values, record.Foreign{Parameter: p, Raw: raw, Exact: schema.WholeBelow(c)})
		}
	}
	return values
}

// present reports whether a column is not null in the current row. A bare repeated field cannot be null: if it is
// empty, it counts as null.
func (r *groupReader) present(c *schema.Node) bool {
	return r.columns[c.Column][0].DefinitionLevel() >= c.MaxDef
}

func numberOf(v parquet.Value, t parquet.Type) jsonvalue.Number {
	if schema.IsDecimal(t) {
		n, _ := jsonvalue.ParseNumber(bytes.Trim(schema.AppendValue(nil, v, t), `"`))
		return n
	}
	switch v.Kind() {
	case parquet.Float:
		// Convert through the shortest decimal, so that 0.7 stored in 32 bits is 0.7 and not 0.699999988.
		f, err := strconv.ParseFloat(strconv.FormatFloat(float64(v.Float()), 'g', -1, 32), 64)
		if err != nil || math.Abs(f) > math.MaxFloat32 { // the shortest decimal of the largest float32 exceeds it
			f = float64(v.Float())
		}
		return jsonvalue.Number{IsFloat: true, Float: f, Exact: 1 << 24}
	case parquet.Double:
		return jsonvalue.Number{IsFloat: true, Float: v.Double()}
	}
	signed, _ := schema.Integer(t)
	n := jsonvalue.Number{}
	switch {
	case v.Kind() == parquet.Int32 && signed:
		n.Int = int64(v.Int32())
	case v.Kind() == parquet.Int32:
		n.Int = int64(v.Uint32())
	default:
		n.Int = v.Int64()
		n.Big = !signed && n.Int < 0
	}
	n.Uint = uint64(n.Int)
	return n
}

// elements calls do with the leaf values of a list column's elements; null reports that an element or its leaf is
// null.
func (r *groupReader) elements(list, leaf *schema.Node, do func(v parquet.Value, null bool)) {
	rep := list
	if list.Rep != schema.Repeated {
		rep = list.Fields[0]
	}
	for _, v := range r.columns[leaf.Column] {
		if v.DefinitionLevel() >= rep.MaxDef {
			do(v, v.IsNull())
		}
	}
}

func (r *groupReader) tokens(row *record.Builder, c *schema.Node) {
	leaf := c.Element()
	i := 0
	r.elements(c, leaf, func(v parquet.Value, null bool) {
		if null {
			row.Fail("prompt_token_ids[%d] is null; give a token id", i)
		} else if n := numberOf(v, leaf.Type); n.Big {
			row.Token(math.MaxInt64)
		} else {
			row.Token(n.Int)
		}
		i++
	})
}

// parameter sets one of Quire's own parameters to the value of its column.
func (r *groupReader) parameter(row *record.Builder, p *parameter.Parameter, c *schema.Node) {
	o := &row.Overrides
	switch p.Type() {
	case parameter.TextList:
		r.texts(row, p, c)
		return
	case parameter.Object, parameter.List:
		r.checkText(row, c)
		if raw := r.json(c); raw != nil && !record.GiveJSON(o, p, raw) {
			row.Fail("%s is %s; it must be %s", p.Name, jsonvalue.Describe(raw), p.Type())
		}
		return
	}
	switch v := r.columns[c.Column][0]; {
	case v.IsNull():
	case p.Type() == parameter.Boolean:
		*o.Give(p).(*bool) = v.Boolean()
	case p.Type() == parameter.Word:
		*o.Give(p).(*string) = row.Text(p.Name, v.ByteArray())
	default:
		row.Override(o, p, p.Name, numberOf(v, c.Type))
	}
}

// json returns a column of the row as JSON, nil if it is null. Null members of structs are omitted, because every
// struct of a column has all members.
func (r *groupReader) json(c *schema.Node) []byte {
	if !r.present(c) {
		return nil
	}
	a := &schema.Assembler{Values: r.values, Given: true, Python: true}
	a.Index()
	return a.Append(nil, c)
}

// texts sets a parameter that is a list of texts, from a column of text or of lists.
func (r *groupReader) texts(row *record.Builder, p *parameter.Parameter, c *schema.Node) {
	if c.IsLeaf && c.Rep != schema.Repeated {
		if v := r.columns[c.Column][0]; !v.IsNull() {
			*row.Overrides.Give(p).(*[]string) = []string{row.Text(p.Name, v.ByteArray())}
		}
		return
	}
	if !r.present(c) {
		return
	}
	list := []string{}
	r.elements(c, c.Element(), func(v parquet.Value, null bool) {
		if null {
			row.Fail("%s[%d] is null; give text", p.Name, len(list))
			return
		}
		list = append(list, row.Text(fmt.Sprintf("%s[%d]", p.Name, len(list)), v.ByteArray()))
	})
	*row.Overrides.Give(p).(*[]string) = list
}
