package schema

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/internal/pyjson"
)

// Assembler writes the values of one Parquet row as JSON: lists as arrays, structs and maps as objects, dates and times
// as RFC 3339 text, decimals as text with all their digits, UUIDs as text, JSON as itself, other binary as base64.
type Assembler struct {
	Values []parquet.Value // values of the row, by leaf
	Given  bool            // omit null members of structs
	Python bool            // write floats and decimals for templates: see appendPython and appendDecimal
	Next   []int           // the next value of each leaf
	end    []int
}

func (a *Assembler) Index() {
	for i, v := range a.Values {
		for len(a.Next) <= v.Column() {
			a.Next = append(a.Next, i)
			a.end = append(a.end, i)
		}
		a.end[v.Column()] = i + 1
	}
}

// Append writes a top-level column.
func (a *Assembler) Append(b []byte, n *Node) []byte {
	if n.Rep == Repeated {
		return a.repeated(b, n, '[', ']', func(b []byte) []byte { return a.present(b, n) })
	}
	return a.node(b, n)
}

// head returns the next value of n's first leaf; ok is false after the last.
func (a *Assembler) head(n *Node) (v parquet.Value, ok bool) {
	c := n.Column
	if c >= len(a.Next) || a.Next[c] >= a.end[c] {
		return parquet.Value{}, false
	}
	return a.Values[a.Next[c]], true
}

func (a *Assembler) skip(n *Node) {
	for c := n.Column; c < n.Column+n.Leaves && c < len(a.Next); c++ {
		a.Next[c]++
	}
}

// node writes a value that may be null.
func (a *Assembler) node(b []byte, n *Node) []byte {
	if v, ok := a.head(n); !ok || v.DefinitionLevel() < n.MaxDef {
		a.skip(n)
		return append(b, "null"...)
	}
	return a.present(b, n)
}

// repeated writes the elements of a repeated node between open and close.
func (a *Assembler) repeated(b []byte, n *Node, open, close byte, element func([]byte) []byte) []byte {
	b = append(b, open)
	if v, ok := a.head(n); !ok || v.DefinitionLevel() < n.MaxDef {
		a.skip(n)
		return append(b, close)
	}
	for {
		b = element(b)
		if v, ok := a.head(n); !ok || v.RepetitionLevel() < n.MaxRep {
			return append(b, close)
		}
		b = append(b, ',')
	}
}

func (a *Assembler) present(b []byte, n *Node) []byte {
	switch {
	case n.IsLeaf:
		v, _ := a.head(n)
		a.skip(n)
		if n.words && v.Kind() == parquet.ByteArray {
			return jsonvalue.AppendText(b, string(v.ByteArray()))
		}
		if f, ok := floatOf(v, n.Type); ok && a.Python {
			return appendPython(b, f)
		}
		if a.Python && IsDecimal(n.Type) {
			return appendDecimal(b, v, n.Type)
		}
		return AppendValue(b, v, n.Type)
	case n.IsMap():
		entry := n.Fields[0]
		return a.repeated(b, entry, '{', '}', func(b []byte) []byte {
			key := a.node(nil, entry.Fields[0])
			if len(key) == 0 || key[0] != '"' {
				key = jsonvalue.AppendText(nil, strings.TrimSuffix(string(key), pyjson.DecimalMark))
			}
			return a.node(append(append(b, key...), ':'), entry.Fields[1])
		})
	case n.IsList():
		middle, element := n.Fields[0], n.Element()
		return a.repeated(b, middle, '[', ']', func(b []byte) []byte {
			if middle == element {
				return a.present(b, element)
			}
			return a.node(b, element)
		})
	}
	b = append(b, '{')
	first := true
	for _, f := range n.Fields {
		before := len(b)
		if !first {
			b = append(b, ',')
		}
		b = append(jsonvalue.AppendText(b, f.Name), ':')
		value := len(b)
		if b = a.Append(b, f); a.Given && string(b[value:]) == "null" {
			b = b[:before]
			continue
		}
		first = false
	}
	return append(b, '}')
}

// IsDecimal reports whether values are decimal numbers, which [AppendValue] writes as text to keep all of their
// digits.
func IsDecimal(t parquet.Type) bool {
	lt := t.LogicalType()
	if lt == nil {
		return false
	}
	_, ok := lt.Value.(*format.DecimalType)
	return ok
}

// AppendValue writes one value.
func AppendValue(b []byte, v parquet.Value, t parquet.Type) []byte {
	var logical any
	if lt := t.LogicalType(); lt != nil {
		logical = lt.Value
	}
	switch l := logical.(type) {
	case *format.DecimalType:
		return jsonvalue.AppendText(b, decimal(v, int(l.Scale)))
	case *format.DateType:
		return jsonvalue.AppendText(b, time.Unix(int64(v.Int32())*24*60*60, 0).UTC().Format(time.DateOnly))
	case *format.TimestampType:
		layout := "2006-01-02T15:04:05.999999999"
		if l.IsAdjustedToUTC {
			layout += "Z"
		}
		return jsonvalue.AppendText(b, instant(v.Int64(), l.Unit).Format(layout))
	case *format.TimeType:
		n := v.Int64()
		if v.Kind() == parquet.Int32 {
			n = int64(v.Int32())
		}
		return jsonvalue.AppendText(b, instant(n, l.Unit).Format("15:04:05.999999999"))
	case *format.UUIDType:
		h := hex.EncodeToString(v.ByteArray())
		if len(h) == 32 {
			h = h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
		}
		return jsonvalue.AppendText(b, h)
	case *format.JsonType:
		if json.Valid(v.ByteArray()) {
			return append(b, jsonvalue.Compact(v.ByteArray())...)
		}
	}
	if f, ok := floatOf(v, t); ok && v.Kind() == parquet.Double {
		return jsonvalue.AppendFloat(b, f, 64)
	} else if ok {
		return jsonvalue.AppendFloat(b, f, 32)
	}
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.AppendBool(b, v.Boolean())
	case parquet.Int32, parquet.Int64:
		return append(b, numberText(v, t)...)
	case parquet.Int96:
		return jsonvalue.AppendText(b, int96(v.Int96()).Format("2006-01-02T15:04:05.999999999Z"))
	}
	raw := v.ByteArray()
	if ct := t.ConvertedType(); ct != nil && (*ct == deprecated.UTF8 || *ct == deprecated.Enum ||
		*ct == deprecated.Json) {
		return jsonvalue.AppendText(b, string(raw))
	}
	return jsonvalue.AppendText(b, base64.StdEncoding.EncodeToString(raw))
}

// floatOf returns a value that is a float of any width.
func floatOf(v parquet.Value, t parquet.Type) (f float64, ok bool) {
	switch v.Kind() {
	case parquet.Float:
		return float64(v.Float()), true
	case parquet.Double:
		return v.Double(), true
	case parquet.FixedLenByteArray:
		lt, raw := t.LogicalType(), v.ByteArray()
		if lt == nil || len(raw) != 2 {
			return 0, false
		}
		if _, ok = lt.Value.(*format.Float16Type); ok {
			return float16(uint16(raw[0]) | uint16(raw[1])<<8), true
		}
	}
	return 0, false
}

// appendPython writes a float as Python's float() would show it to templates: always with a point or an exponent, and
// with all digits of a float64.
func appendPython(b []byte, f float64) []byte {
	from := len(b)
	b = jsonvalue.AppendFloat(b, f, 64)
	if !bytes.ContainsAny(b[from:], ".el") { // "l" is in null
		b = append(b, ".0"...)
	}
	return b
}

// appendDecimal writes a decimal number as templates show it: an integer if it has no places, else its digits and
// [pyjson.DecimalMark].
func appendDecimal(b []byte, v parquet.Value, t parquet.Type) []byte {
	scale := t.LogicalType().Value.(*format.DecimalType).Scale
	b = append(b, decimal(v, int(scale))...)
	if scale > 0 {
		b = append(b, pyjson.DecimalMark...)
	}
	return b
}

func numberText(v parquet.Value, t parquet.Type) string {
	if signed, ok := Integer(t); ok && !signed {
		if v.Kind() == parquet.Int32 {
			return strconv.FormatUint(uint64(v.Uint32()), 10)
		}
		return strconv.FormatUint(v.Uint64(), 10)
	}
	if v.Kind() == parquet.Int32 {
		return strconv.FormatInt(int64(v.Int32()), 10)
	}
	return strconv.FormatInt(v.Int64(), 10)
}

func instant(n int64, unit format.TimeUnit) time.Time {
	switch unit.Value.(type) {
	case *format.MilliSeconds:
		return time.UnixMilli(n).UTC()
	case *format.MicroSeconds:
		return time.UnixMicro(n).UTC()
	}
	return time.Unix(n/1e9, n%1e9).UTC()
}

// int96 is the old timestamp: nanoseconds of the day, then the Julian day.
func int96(v deprecated.Int96) time.Time {
	const unixEpoch = 2440588
	nanos := int64(uint64(v[0]) | uint64(v[1])<<32)
	return time.Unix((int64(v[2])-unixEpoch)*24*60*60, nanos).UTC()
}

// decimal writes a value of the given scale with all its digits.
func decimal(v parquet.Value, scale int) string {
	n := new(big.Int)
	switch v.Kind() {
	case parquet.Int32:
		n.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		n.SetInt64(v.Int64())
	default: // two's complement, big endian
		raw := v.ByteArray()
		n.SetBytes(raw)
		if len(raw) > 0 && raw[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
		}
	}
	sign := ""
	if n.Sign() < 0 {
		sign = "-"
		n.Neg(n)
	}
	digits := n.String()
	if scale <= 0 {
		return sign + digits
	}
	for len(digits) <= scale {
		digits = "0" + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

// float16 widens an IEEE half.
func float16(h uint16) float64 {
	exponent, fraction := int(h>>10&31), float64(h&1023)
	f := math.Ldexp(1+fraction/1024, exponent-15)
	switch exponent {
	case 0:
		f = math.Ldexp(fraction, -24)
	case 31:
		f = math.Inf(1)
		if fraction != 0 {
			f = math.NaN()
		}
	}
	if h&0x8000 != 0 {
		f = -f
	}
	return f
}
