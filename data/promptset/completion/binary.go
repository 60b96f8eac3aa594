package completion

import (
	"encoding/binary"
	"errors"
	"math"
)

// The first byte of a result's binary form: with extras after the common fields, and without.
const (
	resultVersion = 1
	extraVersion  = 2
)

// ErrResultBytes reports that bytes are not the binary form of a [Result].
var ErrResultBytes = errors.New("not the bytes of a completion")

// AppendBinary appends the result in a form that [Result.UnmarshalBinary] reads back exactly.
func (r *Result) AppendBinary(b []byte) ([]byte, error) {
	if r.numExtras() > 0 {
		b = append(b, extraVersion)
	} else {
		b = append(b, resultVersion)
	}
	b = binary.AppendVarint(b, int64(r.Generation))
	b = appendString(b, r.FinishReason)
	b = appendString(b, r.Text)
	b = appendString(b, r.Err)
	b = binary.AppendVarint(b, int64(r.PromptTokens))
	b = binary.AppendVarint(b, int64(r.CompletionTokens))
	b = appendLength(b, len(r.TokenIDs), r.TokenIDs == nil)
	for _, id := range r.TokenIDs {
		b = binary.AppendVarint(b, int64(id))
	}
	b = appendLength(b, len(r.Logprobs), r.Logprobs == nil)
	for _, p := range r.Logprobs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(p))
	}
	if r.numExtras() > 0 {
		b = r.appendExtras(b)
	}
	return b, nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendLength distinguishes a nil slice from an empty one.
func appendLength(b []byte, n int, isNil bool) []byte {
	if isNil {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(n)+1)
}

// UnmarshalBinary reads the output of AppendBinary. The error is [ErrResultBytes].
func (r *Result) UnmarshalBinary(b []byte) error {
	d := newResultDecoder(b)
	if !d.ok {
		return ErrResultBytes
	}
	*r = Result{Generation: d.integer(), FinishReason: d.text(), Text: d.text(), Err: d.text(),
		PromptTokens: d.integer(), CompletionTokens: d.integer()}
	if n, isNil := d.length(1); !isNil {
		r.TokenIDs = make([]int32, n)
		for i := range r.TokenIDs {
			r.TokenIDs[i] = int32(d.integer())
		}
	}
	if n, isNil := d.length(4); !isNil {
		r.Logprobs = make([]float32, n)
		for i := range r.Logprobs {
			r.Logprobs[i] = math.Float32frombits(binary.LittleEndian.Uint32(d.b[4*i:]))
		}
		d.b = d.b[4*n:]
	}
	if b[0] == extraVersion {
		d.extras(r)
	}
	if !d.ok || len(d.b) > 0 {
		return ErrResultBytes
	}
	return nil
}

// GenerationOf returns the generation of a result in its binary form, without decoding the rest.
func GenerationOf(b []byte) (int, error) {
	d := newResultDecoder(b)
	generation := d.integer()
	if !d.ok {
		return 0, ErrResultBytes
	}
	return generation, nil
}

type resultDecoder struct {
	b  []byte
	ok bool // no error so far
}

func newResultDecoder(b []byte) *resultDecoder {
	if len(b) == 0 || b[0] != resultVersion && b[0] != extraVersion {
		return &resultDecoder{}
	}
	return &resultDecoder{b: b[1:], ok: true}
}

func (d *resultDecoder) fail() {
	d.ok, d.b = false, nil
}

func (d *resultDecoder) integer() int {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[size:]
	return int(n)
}

func (d *resultDecoder) text() string {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > uint64(len(d.b)-size) {
		d.fail()
		return ""
	}
	s := string(d.b[size : size+int(n)])
	d.b = d.b[size+int(n):]
	return s
}

// length reads the length of a list whose items take at least so many bytes.
func (d *resultDecoder) length(item uint64) (n int, isNil bool) {
	m, size := binary.Uvarint(d.b)
	if size <= 0 || m > 0 && (m-1) > uint64(len(d.b)-size)/item {
		d.fail()
		return 0, true
	}
	d.b = d.b[size:]
	return int(max(m, 1) - 1), m == 0
}
