package arrowfile

import (
	"errors"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Bounds of metadata, because arrow-go allocates memory before it checks how much data there is.
const (
	maxMetadata = 64 << 20 // bytes of a message's metadata, and of all the text that it refers to
	maxFields   = 1 << 16
	maxDepth    = 60 // depth of nested fields
)

// The indices of members in the tables of Arrow's Message.fbs, Schema.fbs and File.fbs.
const (
	messageHeaderType, messageHeader, messageBody, messageMetadata = 6, 8, 10, 12
	batchLength, batchBuffers, batchCompression, batchVariadic     = 4, 8, 10, 12
	dictionaryID, dictionaryData, dictionaryDelta                  = 4, 6, 8
	schemaFields, schemaMetadata                                   = 6, 8
	fieldName, fieldTypeKind, fieldDictionary                      = 4, 8, 12
	fieldChildren, fieldMetadata                                   = 14, 16
	encodingID                                                     = 4
	keyOfPair, valueOfPair                                         = 4, 6
	compressionCodec, compressionMethod                            = 4, 6
	footerDictionaries, footerBatches                              = 8, 10
)

// The kinds of messages, and of a type.
const (
	kindSchema, kindDictionary, kindBatch = 1, 2, 3
	typeUnion                             = 14
	typeBinaryView, typeTextView          = 23, 24
)

// guard converts a panic to an error: invalid metadata or buffers can cause one.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("it is corrupt: %v", p)
	}
}

// flat is a table of a flatbuffer. Its methods panic if the table is corrupt.
type flat struct{ flatbuffers.Table }

func root(b []byte) flat { return flat{flatbuffers.Table{Bytes: b, Pos: flatbuffers.GetUOffsetT(b)}} }

// position returns the position of a member, 0 if it is absent.
func (t flat) position(member flatbuffers.VOffsetT) flatbuffers.UOffsetT {
	if o := t.Offset(member); o != 0 {
		return t.Pos + flatbuffers.UOffsetT(o)
	}
	return 0
}

func (t flat) int64(member flatbuffers.VOffsetT) int64 {
	if position := t.position(member); position != 0 {
		return t.GetInt64(position)
	}
	return 0
}

func (t flat) int8(member flatbuffers.VOffsetT, otherwise int8) int8 {
	if position := t.position(member); position != 0 {
		return t.GetInt8(position)
	}
	return otherwise
}

// table returns a member that is a table; ok is false if it is absent.
func (t flat) table(member flatbuffers.VOffsetT) (child flat, ok bool) {
	position := t.position(member)
	if position == 0 {
		return flat{}, false
	}
	return flat{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(position)}}, true
}

// vector returns the start and the length of a member that is a vector of elements of so many bytes.
func (t flat) vector(member flatbuffers.VOffsetT, size int) (start flatbuffers.UOffsetT, n int) {
	o := t.Offset(member)
	if o == 0 {
		return 0, 0
	}
	start, n = t.Vector(flatbuffers.UOffsetT(o)), t.VectorLen(flatbuffers.UOffsetT(o))
	if n < 0 || int64(start)+int64(n)*int64(size) > int64(len(t.Bytes)) {
		panic(fmt.Sprintf("a list claims %d elements, more than its metadata have", n))
	}
	return start, n
}

// tables calls each with the elements of a member that is a vector of tables.
func (t flat) tables(member flatbuffers.VOffsetT, each func(flat)) {
	start, n := t.vector(member, 4)
	for i := range n {
		each(flat{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(start + flatbuffers.UOffsetT(4*i))}})
	}
}

// textSize returns the length of a member that is text, or a vector of bytes.
func (t flat) textSize(member flatbuffers.VOffsetT) int {
	_, n := t.vector(member, 1)
	return n
}

// budget is how much metadata may still refer to, because any number of references to a flatbuffer's table are
// possible.
type budget struct{ fields, text int }

func newBudget() *budget { return &budget{maxFields, maxMetadata} }

func (b *budget) spend(fields, text int) {
	if b.fields, b.text = b.fields-fields, b.text-text; b.fields < 0 || b.text < 0 {
		panic(fmt.Sprintf("its metadata have more than %d fields or %d bytes of text", maxFields, maxMetadata))
	}
}

// pairs subtracts the keys and values of a member.
func (b *budget) pairs(t flat, member flatbuffers.VOffsetT) {
	t.tables(member, func(pair flat) { b.spend(1, pair.textSize(keyOfPair)+pair.textSize(valueOfPair)) })
}

// field subtracts a field and the fields below it.
func (b *budget) field(t flat, depth int) {
	if depth > maxDepth {
		panic(fmt.Sprintf("its columns are nested more than %d deep", maxDepth))
	}
	if t.int8(fieldTypeKind, 0) == typeUnion {
		panic(errors.New("a column is a union"))
	}
	b.spend(1, t.textSize(fieldName))
	b.pairs(t, fieldMetadata)
	t.tables(fieldChildren, func(child flat) { b.field(child, depth+1) })
}

// checkSchema checks the metadata of a schema before arrow-go parses it.
func checkSchema(message flat) (err error) {
	defer guard(&err)
	b := newBudget()
	b.pairs(message, messageMetadata)
	schema, ok := message.table(messageHeader)
	if !ok {
		return errors.New("its schema is missing")
	}
	b.pairs(schema, schemaMetadata)
	schema.tables(schemaFields, func(f flat) { b.field(f, 1) })
	return nil
}

// views are the numbers of columns of views, whose buffers a record batch or a dictionary counts. arrow-go reads a
// count for each, even if there is none.
type views struct {
	batch        int
	dictionaries map[int64]int // by id
}

// viewsOf counts the columns of views of a schema that checkSchema accepts.
func viewsOf(message flat) views {
	v := views{dictionaries: map[int64]int{}}
	schema, _ := message.table(messageHeader)
	schema.tables(schemaFields, func(f flat) { v.batch += v.field(f) })
	return v
}

// field counts the columns of views in a field; those in a dictionary's values are the dictionary's.
func (v views) field(t flat) (n int) {
	if kind := t.int8(fieldTypeKind, 0); kind == typeBinaryView || kind == typeTextView {
		n = 1
	}
	t.tables(fieldChildren, func(child flat) { n += v.field(child) })
	if encoding, ok := t.table(fieldDictionary); ok {
		id := encoding.int64(encodingID)
		v.dictionaries[id] = max(n, v.dictionaries[id])
		return 0
	}
	return n
}

// columns returns how many columns of views a message has.
func (v views) columns(m *message) int {
	if m.kind == kindDictionary {
		return v.dictionaries[m.id]
	}
	return v.batch
}
