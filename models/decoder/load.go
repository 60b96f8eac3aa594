package decoder

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/collective"
	"github.com/quire/quire/models"
)

// placer is a backend whose device memory the host can write: an array is made there, without a copy.
type placer interface {
	// NewZeros returns an array of zeros and a slice over its storage.
	NewZeros(device compute.DeviceNum, shape shapes.Shape) (buffer compute.Buffer, flat any, err error)
	HostWritable() bool
}

// Load reads an array from a checkpoint to a device of the backend that [Arrays] was told; for a group, whose device is
// 0, to each of its devices that this process has its part. A matrix goes from the mapped file to where it stays,
// packed on the way; the pages of the file are given back.
func (a Array) Load(backend compute.Backend, device compute.DeviceNum, from *models.Checkpoint) (compute.Buffer,
	error) {
	buffer, err := a.load(backend, device, from)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", a.Name, err)
	}
	return buffer, nil
}

func (a Array) load(backend compute.Backend, device compute.DeviceNum, from *models.Checkpoint) (whole compute.Buffer,
	err error) {
	members := []compute.Backend{backend}
	group, isGroup := backend.(collective.Group)
	if isGroup = isGroup && group.Partitions() > 1; isGroup {
		members, device = make([]compute.Backend, len(group.Places())), 0
		for i := range members {
			if members[i], err = group.Member(i); err != nil {
				return nil, err
			}
		}
	}
	buffers := make([]compute.Buffer, len(members))
	defer func() {
		if err != nil {
			for _, b := range buffers {
				if b != nil {
					_ = b.Finalize()
				}
			}
		}
	}()
	flats := make([]any, len(members))
	p, inPlace := members[0].(placer)
	inPlace = inPlace && p.HostWritable() && a.part != firstRow
	for i, member := range members {
		if inPlace {
			if buffers[i], flats[i], err = member.(placer).NewZeros(device, a.Shape); err != nil {
				return nil, err
			}
		} else {
			flats[i] = reflect.MakeSlice(reflect.SliceOf(a.Shape.DType.GoType()), a.Shape.Size(),
				a.Shape.Size()).Interface()
		}
	}
	if err := a.fill(backend, flats, from); err != nil {
		return nil, err
	}
	for i, member := range members {
		if !inPlace {
			if buffers[i], err = member.BufferFromFlatData(device, flats[i], a.Shape); err != nil {
				return nil, err
			}
			flats[i] = nil
		}
	}
	if !isGroup {
		return buffers[0], nil
	}
	return group.Join(buffers)
}

// fill writes the elements of the array that each device of this process has to its slice, which holds zeros.
func (a Array) fill(backend compute.Backend, flats []any, from *models.Checkpoint) error {
	places := collective.Places(backend)
	if a.layers != nil {
		return a.fillLayers(backend, flats, from)
	}
	for i, flat := range flats {
		switch a.part {
		case firstRow:
			flat.([]int32)[0] = int32(places[i] * a.split.Vocab)
		case firstKeys:
			a.split.firstKeys(places[i], flat.([]float32))
		}
	}
	for _, s := range a.sources {
		tensor, err := from.Read(s.name, a.read)
		if err != nil {
			return err
		}
		if n := reflect.ValueOf(tensor).Len(); n != s.rows*s.width {
			return fmt.Errorf("tensor %s has %d values, not %d rows of %d", s.name, n, s.rows, s.width)
		}
		for i, flat := range flats {
			if err := a.put(backend, flat, s, s.spans(places[i]), tensor); err != nil {
				return err
			}
		}
		from.Release(s.name)
	}
	return nil
}

// put writes spans of a tensor to a device's slice.
func (a Array) put(backend compute.Backend, flat any, s source, spans []span, tensor any) error {
	if s.columns {
		if len(spans) == 1 && spans[0].n == s.width && a.format.In == s.width {
			return a.putRows(backend, flat, tensor, 0)
		}
		return a.putRows(backend, flat, cutColumns(tensor, s, spans, a.format.In), 0)
	}
	for _, part := range spans {
		rows := reflect.ValueOf(tensor).Slice(part.from*s.width, (part.from+part.n)*s.width).Interface()
		if err := a.putRows(backend, flat, rows, part.to); err != nil {
			return err
		}
	}
	return nil
}

// putRows writes whole rows of the array, from the given one on.
func (a Array) putRows(backend compute.Backend, flat, rows any, at int) error {
	width := a.format.In
	switch {
	case a.part == vector:
		reflect.Copy(reflect.ValueOf(flat).Slice(at, reflect.ValueOf(flat).Len()), reflect.ValueOf(rows))
		if a.offset != 0 {
			for i := range reflect.ValueOf(rows).Len() {
				flat.([]float32)[at+i] += a.offset
			}
		}
	case a.part == scales:
		eachRow(rows.([]float32), width, func(i int, x []float32) { flat.([]float32)[at+i] = scaleOf(x) })
	case a.format.DType == dtypes.Int8:
		x := rows.([]float32)
		quantized := make([]int8, len(x))
		eachRow(x, width, func(i int, x []float32) { quantize(quantized[i*width:], x) })
		return a.format.Pack(backend, flat, quantized, at)
	default:
		return a.format.Pack(backend, flat, rows, at)
	}
	return nil
}

// cutColumns copies spans of a tensor's columns to rows of the given width, which holds zeros elsewhere.
func cutColumns(tensor any, s source, spans []span, width int) any {
	of := reflect.ValueOf(tensor)
	out := reflect.MakeSlice(of.Type(), s.rows*width, s.rows*width)
	size := int(of.Type().Elem().Size())
	bytes := func(x reflect.Value) []byte { return unsafe.Slice((*byte)(x.UnsafePointer()), x.Len()*size) }
	to, in := bytes(out), bytes(of)
	for row := range s.rows {
		for _, part := range spans {
			copy(to[(row*width+part.to)*size:][:part.n*size], in[(row*s.width+part.from)*size:])
		}
	}
	return out.Interface()
}

// eachRow calls f for each row of a matrix, on all processors.
func eachRow(x []float32, width int, f func(i int, row []float32)) {
	rows, workers := len(x)/width, runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := rows * w / workers; i < rows*(w+1)/workers; i++ {
				f(i, x[i*width:][:width])
			}
		})
	}
	wg.Wait()
}

// scaleOf is what 127 stands for in a row, by 127.
func scaleOf(row []float32) float32 {
	largest := float32(0)
	for _, x := range row {
		largest = max(largest, x, -x)
	}
	return largest / 127
}

// quantize rounds a row to multiples of its scale.
func quantize(to []int8, row []float32) {
	scale := scaleOf(row)
	if scale == 0 {
		return
	}
	for i, x := range row {
		to[i] = int8(math.RoundToEven(float64(x / scale)))
	}
}
