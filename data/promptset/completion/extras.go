package completion

import (
	"encoding/binary"
	"math"
)

// extra is an optional field of a result. A result's binary form ends with the extras that it has, each after its
// tag.
type extra struct {
	tag    byte // never reused for something else
	has    func(*Result) bool
	append func([]byte, *Result) []byte
	read   func(*resultDecoder, *Result)
}

var extras = append([]extra{
	listExtra(1, func(r *Result) *[]float32 { return &r.ProcessedLogprobs }, floatItem),
	nestedExtra(2, func(r *Result) *[][]int32 { return &r.TopIDs }, idItem),
	nestedExtra(3, func(r *Result) *[][]float32 { return &r.TopLogprobs }, floatItem),
	listExtra(4, func(r *Result) *[]int32 { return &r.PromptTokenIDs }, idItem),
	listExtra(5, func(r *Result) *[]float32 { return &r.PromptLogprobs }, floatItem),
	nestedExtra(6, func(r *Result) *[][]int32 { return &r.PromptTopIDs }, idItem),
	nestedExtra(7, func(r *Result) *[][]float32 { return &r.PromptTopLogprobs }, floatItem),
	textExtra(8, func(r *Result) *string { return &r.Reasoning }),
	textExtra(9, func(r *Result) *string { return &r.ToolCalls }),
	listExtra(11, func(r *Result) *[]float32 { return &r.Vector }, floatItem),
	{tag: 12, has: func(r *Result) bool { return r.Truncated },
		append: func(b []byte, _ *Result) []byte { return b },
		read:   func(_ *resultDecoder, r *Result) { r.Truncated = true }},
	textExtra(15, func(r *Result) *string { return &r.Label }),
	listExtra(16, func(r *Result) *[]int32 { return &r.Ranking }, idItem),
	listExtra(17, func(r *Result) *[]uint16 { return &r.Experts }, expertItem),
	listExtra(18, func(r *Result) *[]string { return &r.Labels }, textItem),
	listExtra(19, func(r *Result) *[]int32 { return &r.Starts }, idItem),
	listExtra(21, func(r *Result) *[]int32 { return &r.Ends }, idItem),
	listExtra(22, func(r *Result) *[]string { return &r.TokenLabels }, textItem),
	listExtra(23, func(r *Result) *[]float32 { return &r.ChoiceProbabilities }, floatItem),
	nestedExtra(24, func(r *Result) *[][]float32 { return &r.Vectors }, floatItem),
	{tag: 25, has: func(r *Result) bool { return r.Hidden != nil },
		append: func(b []byte, r *Result) []byte { return appendString(b, string(r.Hidden)) },
		read:   func(d *resultDecoder, r *Result) { r.Hidden = []byte(d.text()) }},
	listExtra(26, func(r *Result) *[]float32 { return &r.Embedding }, floatItem),
}, append(measureExtras(), weightsExtra, verdictExtra, messagesExtra, maskExtra, turnsExtra)...)

// weightsExtra has the versions of the weights, each after its first token.
var weightsExtra = extra{tag: 14, has: func(r *Result) bool { return r.WeightsVersions != nil },
	append: func(b []byte, r *Result) []byte {
		b = binary.AppendUvarint(b, uint64(len(r.WeightsVersions)))
		for i, version := range r.WeightsVersions {
			b = appendString(binary.AppendVarint(b, int64(r.WeightsStarts[i])), version)
		}
		return b
	},
	read: func(d *resultDecoder, r *Result) {
		n, size := binary.Uvarint(d.b)
		if size <= 0 || n > uint64(len(d.b)-size)/2 {
			d.fail()
			return
		}
		d.b = d.b[size:]
		r.WeightsVersions, r.WeightsStarts = make([]string, n), make([]int32, n)
		for i := range n {
			r.WeightsStarts[i], r.WeightsVersions[i] = int32(d.integer()), d.text()
		}
	}}

// Extras of a [Conversation].
var (
	messagesExtra = textExtra(30, func(r *Result) *string { return &r.Messages })
	maskExtra     = listExtra(31, func(r *Result) *[]int32 { return &r.Mask }, idItem)
	turnsExtra    = extra{tag: 32, has: func(r *Result) bool { return r.Turns != 0 },
		append: func(b []byte, r *Result) []byte { return binary.AppendVarint(b, int64(r.Turns)) },
		read: func(d *resultDecoder, r *Result) {
			if r.Turns = d.integer(); r.Turns == 0 { // has no such extra
				d.fail()
			}
		}}
)

func measureExtras() (all []extra) {
	for m := range measures {
		all = append(all, listExtra(measures[m].tag, func(r *Result) *[]float32 { return &r.Measures[m] }, floatItem))
	}
	return all
}

func textExtra(tag byte, field func(*Result) *string) extra {
	return extra{tag: tag, has: func(r *Result) bool { return *field(r) != "" },
		append: func(b []byte, r *Result) []byte { return appendString(b, *field(r)) },
		read:   func(d *resultDecoder, r *Result) { *field(r) = d.text() }}
}

// item defines how an element of a list is encoded.
type item[T any] struct {
	least  uint64 // minimum size in bytes
	append func([]byte, T) []byte
	read   func(*resultDecoder) T
}

var (
	idItem = item[int32]{1, func(b []byte, id int32) []byte { return binary.AppendVarint(b, int64(id)) },
		func(d *resultDecoder) int32 { return int32(d.integer()) }}
	expertItem = item[uint16]{2, binary.LittleEndian.AppendUint16,
		func(d *resultDecoder) uint16 {
			if len(d.b) < 2 {
				d.fail()
				return 0
			}
			n := binary.LittleEndian.Uint16(d.b)
			d.b = d.b[2:]
			return n
		}}
	textItem  = item[string]{1, appendString, (*resultDecoder).text}
	floatItem = item[float32]{4,
		func(b []byte, f float32) []byte { return binary.LittleEndian.AppendUint32(b, math.Float32bits(f)) },
		func(d *resultDecoder) float32 {
			if len(d.b) < 4 {
				d.fail()
				return 0
			}
			f := math.Float32frombits(binary.LittleEndian.Uint32(d.b))
			d.b = d.b[4:]
			return f
		}}
)

func (it item[T]) appendList(b []byte, list []T) []byte {
	b = appendLength(b, len(list), list == nil)
	for _, v := range list {
		b = it.append(b, v)
	}
	return b
}

func (it item[T]) readList(d *resultDecoder) []T {
	n, isNil := d.length(it.least)
	if isNil {
		return nil
	}
	list := make([]T, n)
	for i := range list {
		list[i] = it.read(d)
	}
	return list
}

func listExtra[T any](tag byte, field func(*Result) *[]T, it item[T]) extra {
	return extra{tag: tag, has: func(r *Result) bool { return *field(r) != nil },
		append: func(b []byte, r *Result) []byte { return it.appendList(b, *field(r)) },
		read:   func(d *resultDecoder, r *Result) { *field(r) = it.readList(d) }}
}

func nestedExtra[T any](tag byte, field func(*Result) *[][]T, it item[T]) extra {
	lists := item[[]T]{1, it.appendList, it.readList}
	return extra{tag: tag, has: func(r *Result) bool { return *field(r) != nil },
		append: func(b []byte, r *Result) []byte { return lists.appendList(b, *field(r)) },
		read:   func(d *resultDecoder, r *Result) { *field(r) = lists.readList(d) }}
}

func (r *Result) numExtras() (n int) {
	for _, e := range extras {
		if e.has(r) {
			n++
		}
	}
	return n
}

// appendExtras appends the result's extras.
func (r *Result) appendExtras(b []byte) []byte {
	b = append(b, byte(r.numExtras()))
	for _, e := range extras {
		if e.has(r) {
			b = e.append(append(b, e.tag), r)
		}
	}
	return b
}

// extras reads the output of appendExtras, in its order.
func (d *resultDecoder) extras(r *Result) {
	if len(d.b) == 0 {
		d.fail()
		return
	}
	left := d.b[0]
	d.b = d.b[1:]
	for _, e := range extras {
		if left > 0 && len(d.b) > 0 && d.b[0] == e.tag {
			d.b = d.b[1:]
			e.read(d, r)
			left--
		}
	}
	if left > 0 {
		d.fail()
	}
}
