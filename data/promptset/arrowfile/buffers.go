package arrowfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Bounds of the decompressed size of a message's buffers. More is accepted if they are hardly compressed.
const (
	maxBytes  = 1 << 30
	maxRatio  = 16
	maxWindow = 128 << 20 // bound of zstd's window, which its decoder allocates
)

// expand decompresses the buffers of a record batch or a dictionary, and returns a body without compressed buffers,
// whose positions it writes into the metadata. arrow-go would allocate whatever size they claim, and any window.
// columns is the number of columns of views.
func (m *message) expand(meta, body []byte, columns int) (_ []byte, err error) {
	defer guard(&err)
	if m.kind == kindSchema {
		return body, nil
	}
	batch, _ := root(meta).table(messageHeader)
	if m.kind == kindDictionary {
		batch, _ = batch.table(dictionaryData)
	}
	compression, compressed := batch.table(batchCompression)
	if !compressed {
		return body, batch.checkBuffers(body, columns)
	}
	if err := batch.checkBuffers(body, columns); err != nil {
		return nil, err
	}
	if compression.int8(compressionMethod, 0) != 0 {
		return nil, errors.New("its buffers are not compressed individually; write the file again")
	}
	d := decompressor{codec: compression.int8(compressionCodec, 0), left: max(maxBytes, maxRatio*int64(len(body)))}
	defer d.close()
	var whole []byte
	start, n := batch.vector(batchBuffers, 16)
	for i := range n {
		entry := start + flatbuffers.UOffsetT(16*i)
		offset, length := batch.GetInt64(entry), batch.GetInt64(entry+8)
		if length == 0 {
			binary.LittleEndian.PutUint64(meta[entry:], 0)
			continue
		}
		whole = append(whole, make([]byte, -len(whole)&7)...)
		begin := len(whole)
		if whole, err = d.add(whole, body[offset:offset+length]); err != nil {
			return nil, fmt.Errorf("it is corrupt: buffer %d %w", i, err)
		}
		binary.LittleEndian.PutUint64(meta[entry:], uint64(begin))
		binary.LittleEndian.PutUint64(meta[entry+8:], uint64(len(whole)-begin))
	}
	return whole, batch.checkBuffers(whole, columns)
}

// checkBuffers checks that the buffers of a record batch are inside its body, and that columns of views do not claim
// more of them than there are.
func (t flat) checkBuffers(body []byte, columns int) error {
	start, n := t.vector(batchBuffers, 16)
	for i := range n {
		entry := start + flatbuffers.UOffsetT(16*i)
		offset, length := t.GetInt64(entry), t.GetInt64(entry+8)
		if offset < 0 || length < 0 || offset > int64(len(body))-length || offset%8 != 0 {
			return fmt.Errorf("it is corrupt: buffer %d is at byte %d with %d bytes, and there are %d", i, offset,
				length, len(body))
		}
	}
	start, counts := t.vector(batchVariadic, 8)
	if counts < columns {
		return fmt.Errorf("it is corrupt: it counts the buffers of %d columns of views, and there are %d", counts,
			columns)
	}
	for i := range counts {
		if k := t.GetInt64(start + flatbuffers.UOffsetT(8*i)); k < 0 || k > int64(n) {
			return fmt.Errorf("it is corrupt: a column claims %d of its %d buffers", k, n)
		}
	}
	return nil
}

// The codecs of buffers.
const (
	codecLZ4  = 0
	codecZstd = 1
)

// notCompressed is in place of the length of a buffer that is not compressed.
const notCompressed = -1

// decompressor decompresses buffers.
type decompressor struct {
	codec int8
	left  int64 // how many more bytes buffers may decompress to
	lz4   *lz4.Reader
	zstd  *zstd.Decoder
}

func (d *decompressor) close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}

// add appends a buffer as an uncompressed one. It allocates memory for actual data, not for the claimed size.
func (d *decompressor) add(to, buffer []byte) ([]byte, error) {
	if len(buffer) < 8 {
		return nil, errors.New("is too short")
	}
	size := int64(binary.LittleEndian.Uint64(buffer))
	if size == notCompressed {
		return append(to, buffer...), nil
	}
	if size < 0 || size > d.left {
		return nil, fmt.Errorf("claims to become %d bytes, which is too much; write smaller record batches", size)
	}
	d.left -= size
	in, err := d.reader(buffer[8:])
	if err != nil {
		return nil, err
	}
	to = binary.LittleEndian.AppendUint64(to, 1<<64-1) // notCompressed
	end := len(to) + int(size)
	for step := 4 * len(buffer); len(to) < end; step *= 2 {
		piece := min(step, end-len(to))
		to = slices.Grow(to, piece)
		n, err := io.ReadFull(in, to[len(to):len(to)+piece])
		if to = to[:len(to)+n]; err != nil {
			return nil, fmt.Errorf("cannot be decompressed to its %d bytes: %w", size, err)
		}
	}
	return to, nil
}

func (d *decompressor) reader(compressed []byte) (io.Reader, error) {
	in := bytes.NewReader(compressed)
	switch d.codec {
	case codecLZ4:
		if d.lz4 == nil {
			d.lz4 = lz4.NewReader(nil)
		}
		d.lz4.Reset(in)
		return d.lz4, nil
	case codecZstd:
		if d.zstd == nil {
			var err error
			if d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*maxBytes),
				zstd.WithDecoderMaxWindow(maxWindow)); err != nil {
				return nil, err
			}
		}
		return d.zstd, d.zstd.Reset(in)
	}
	return nil, fmt.Errorf("has the unknown codec %d; write the file with LZ4 or ZSTD", d.codec)
}
