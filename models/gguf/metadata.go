package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// valueType is the type tag of a metadata value.
type valueType uint32

const (
	typeUint8 valueType = iota
	typeInt8
	typeUint16
	typeInt16
	typeUint32
	typeInt32
	typeFloat32
	typeBool
	typeString
	typeArray
	typeUint64
	typeInt64
	typeFloat64
)

// scalarBytes returns the size of a fixed-size value, 0 for strings, arrays and unknown tags.
func (t valueType) scalarBytes() uint64 {
	switch t {
	case typeUint8, typeInt8, typeBool:
		return 1
	case typeUint16, typeInt16:
		return 2
	case typeUint32, typeInt32, typeFloat32:
		return 4
	case typeUint64, typeInt64, typeFloat64:
		return 8
	}
	return 0
}

// value is an undecoded metadata value: raw is checked to hold exactly count elements of type typ.
type value struct {
	typ   valueType // element type for arrays
	array bool
	count int
	raw   []byte
}

func (f *File) parseValue(r *reader, i uint64) error {
	key := string(r.str())
	typ := valueType(r.u32())
	if r.failed {
		return errTruncated(r, fmt.Sprintf("metadata entry %d", i))
	}
	if len(key) > maxNameBytes {
		return fmt.Errorf("metadata entry %d has a key of %d bytes, more than %d", i, len(key), maxNameBytes)
	}
	if _, twice := f.values[key]; twice {
		return fmt.Errorf("metadata key %q appears twice", key)
	}
	v := value{typ: typ, count: 1}
	count := uint64(1)
	if typ == typeArray {
		v.array = true
		v.typ = valueType(r.u32())
		count = r.u64()
	}
	start := r.pos
	if size := v.typ.scalarBytes(); size > 0 {
		if count > uint64(len(r.data)) { // keeps the product below in range
			r.failed = true
		} else {
			r.bytes(count * size)
		}
	} else if v.typ == typeString {
		for j := uint64(0); j < count && !r.failed; j++ {
			r.str()
		}
	} else if !r.failed {
		return fmt.Errorf("metadata key %q has a value of type %d, which is not supported", key, v.typ)
	}
	if r.failed {
		return errTruncated(r, fmt.Sprintf("the value of metadata key %q", key))
	}
	v.count, v.raw = int(count), r.data[start:r.pos]
	f.values[key] = v
	f.keys = append(f.keys, key)
	return nil
}

// Metadata provides the metadata of a file.
type Metadata interface {
	Has(key string) bool
	Int(key string) (n int64, ok bool)
	Bool(key string) (b, ok bool)
	String(key string) (s string, ok bool)
	Strings(key string) (list []string, ok bool)
	Ints(key string) (list []int64, ok bool)
	Floats(key string) (list []float64, ok bool)
}

// Keys lists the metadata keys in file order.
func (f *File) Keys() []string { return slices.Clone(f.keys) }

// Has reports whether there is a metadata value of any type under key.
func (f *File) Has(key string) bool {
	_, ok := f.values[key]
	return ok
}

// Int returns an integer value; ok is false if the key is absent, not an integer, or beyond int64.
func (f *File) Int(key string) (n int64, ok bool) {
	v, ok := f.values[key]
	if !ok || v.array {
		return 0, false
	}
	return v.intAt(0)
}

// Float returns a floating-point or integer value; ok is false if the key is absent or has a different type.
func (f *File) Float(key string) (x float64, ok bool) {
	v, ok := f.values[key]
	if !ok || v.array {
		return 0, false
	}
	return v.floatAt(0)
}

// Bool returns a boolean value; ok is false if the key is absent or has a different type.
func (f *File) Bool(key string) (b, ok bool) {
	v, ok := f.values[key]
	if !ok || v.array || v.typ != typeBool {
		return false, false
	}
	return v.raw[0] != 0, true
}

// String returns a string value; ok is false if the key is absent or has a different type.
func (f *File) String(key string) (s string, ok bool) {
	v, ok := f.values[key]
	if !ok || v.array || v.typ != typeString {
		return "", false
	}
	return string(v.raw[8:]), true
}

// Strings decodes an array of strings; ok is false if the key is absent or has a different type.
func (f *File) Strings(key string) (list []string, ok bool) {
	v, ok := f.values[key]
	if !ok || !v.array || v.typ != typeString {
		return nil, false
	}
	list = make([]string, v.count) // each takes at least 8 bytes of the file
	r := &reader{data: v.raw}
	for i := range list {
		list[i] = string(r.str())
	}
	return list, true
}

// Bools returns an array of bools.
func (f *File) Bools(key string) (list []bool, ok bool) {
	v, ok := f.values[key]
	if !ok || !v.array || v.typ != typeBool {
		return nil, false
	}
	for _, b := range v.raw {
		list = append(list, b != 0)
	}
	return list, true
}

// Ints decodes an array of integers; ok is false if the key is absent, has a different type, or holds an integer
// beyond int64.
func (f *File) Ints(key string) (list []int64, ok bool) {
	v, ok := f.values[key]
	if !ok || !v.array {
		return nil, false
	}
	list = make([]int64, v.count)
	for i := range list {
		if list[i], ok = v.intAt(i); !ok {
			return nil, false
		}
	}
	return list, true
}

// Floats decodes an array of numbers; ok is false if the key is absent or has a different type.
func (f *File) Floats(key string) (list []float64, ok bool) {
	v, ok := f.values[key]
	if !ok || !v.array {
		return nil, false
	}
	list = make([]float64, v.count)
	for i := range list {
		if list[i], ok = v.floatAt(i); !ok {
			return nil, false
		}
	}
	return list, true
}

func (v value) intAt(i int) (int64, bool) {
	size := int(v.typ.scalarBytes())
	if size == 0 {
		return 0, false
	}
	b := v.raw[i*size:]
	switch v.typ {
	case typeUint8:
		return int64(b[0]), true
	case typeInt8:
		return int64(int8(b[0])), true
	case typeUint16:
		return int64(binary.LittleEndian.Uint16(b)), true
	case typeInt16:
		return int64(int16(binary.LittleEndian.Uint16(b))), true
	case typeUint32:
		return int64(binary.LittleEndian.Uint32(b)), true
	case typeInt32:
		return int64(int32(binary.LittleEndian.Uint32(b))), true
	case typeUint64:
		u := binary.LittleEndian.Uint64(b)
		return int64(u), u <= math.MaxInt64
	case typeInt64:
		return int64(binary.LittleEndian.Uint64(b)), true
	}
	return 0, false
}

func (v value) floatAt(i int) (float64, bool) {
	switch v.typ {
	case typeFloat32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw[4*i:]))), true
	case typeFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.raw[8*i:])), true
	}
	n, ok := v.intAt(i)
	return float64(n), ok
}
