package decoder

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/collective"
)

// placer is a backend whose device memory the host can write: an array is created there, without a copy.
type placer interface {
	// NewZeros returns an array of zeros and a slice over its storage.
	NewZeros(device compute.DeviceNum, shape shapes.Shape) (buffer compute.Buffer, flat any, err error)
	HostWritable() bool
}

// Load reads an array from a checkpoint to a device of the backend that was passed to [Arrays]. For a group, the
// device must be 0, and each of its devices that this process has gets its part. A matrix goes from the mapped file
// to its final place and is packed on the way; the pages of the file are released.
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
	members, err := collective.Members(backend)
	if err != nil {
		return nil, err
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
	inPlace = inPlace && p.HostWritable() && a.part != firstRow && a.part != expertGroup
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
	return collective.Join(backend, buffers)
}

// fill writes the part of the array that each device of this process has to the device's slice, which holds zeros.
// The slice is nil for a device that has no part.
func (a Array) fill(backend compute.Backend, flats []any, from *models.Checkpoint) error {
	places := collective.Places(backend)
	if a.members != nil {
		return a.fillStack(backend, flats, from)
	}
	flats, places = present(flats, places)
	for i, flat := range flats {
		switch a.part {
		case firstRow:
			flat.([]int32)[0] = int32(places[i] * a.split.Vocab)
		case expertGroup:
			flat.([]int32)[0] = int32(a.split.group(places[i]))
		case firstKeys:
			a.split.firstKeys(places[i], flat.([]float32))
		}
	}
	devices := make([][]span, len(flats))
	for _, s := range a.sources {
		for i := range flats {
			devices[i] = s.spans(places[i])
		}
		put := a.fillRows
		switch {
		case a.perHead.rows > 0:
			put = a.fillHeads
		case a.format.Blocks.Is():
			put = a.fillBlocks
		case s.columns:
			put = a.fillColumns
		}
		if err := put(backend, flats, s, devices, from); err != nil {
			return err
		}
		from.Release(s.name)
	}
	return nil
}

// present returns the slices that are not nil, and the positions of their devices.
func present(flats []any, places []int) (have []any, positions []int) {
	for i, flat := range flats {
		if flat != nil {
			have, positions = append(have, flat), append(positions, places[i])
		}
	}
	return have, positions
}

// fillRows writes the rows of a tensor that devices have. It reads no other rows, and none twice.
func (a Array) fillRows(backend compute.Backend, flats []any, s source, devices [][]span,
	from *models.Checkpoint) error {
	for _, run := range merged(devices) {
		rows, err := from.ReadRows(s.name, a.read, models.Span{From: run.from, N: run.n})
		if err != nil {
			return err
		}
		if err := s.check(rows, run.n*s.width); err != nil {
			return err
		}
		for i, flat := range flats {
			for _, part := range devices[i] {
				if part.from < run.from || part.from >= run.from+run.n {
					continue
				}
				start := (part.from - run.from) * s.width
				values := reflect.ValueOf(rows).Slice(start, start+part.n*s.width).Interface()
				if err := a.putRows(backend, flat, values, part.to); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fillColumns writes the columns of a tensor that devices have, for all rows.
func (a Array) fillColumns(backend compute.Backend, flats []any, s source, devices [][]span,
	from *models.Checkpoint) error {
	runs := merged(devices)
	if len(runs) == 0 {
		return nil
	}
	var columns []models.Span
	read := s // only these columns are read
	read.width = 0
	for _, run := range runs {
		columns = append(columns, models.Span{From: run.from, N: run.n})
		read.width += run.n
	}
	tensor, err := a.readColumns(s, columns, from)
	if err != nil {
		return err
	}
	if err := s.check(tensor, s.rows*read.width); err != nil {
		return err
	}
	for i, flat := range flats {
		spans := make([]span, len(devices[i]))
		for k, part := range devices[i] {
			spans[k] = span{place(runs, part.from), part.to, part.n}
		}
		rows := tensor
		if len(spans) != 1 || spans[0].n != read.width || a.format.In != read.width {
			rows = cutColumns(tensor, read, spans, a.format.In)
		}
		if err := a.putRows(backend, flat, rows, 0); err != nil {
			return err
		}
	}
	return nil
}

// readColumns reads columns of a tensor, or the whole tensor if all are wanted.
func (a Array) readColumns(s source, columns []models.Span, from *models.Checkpoint) (any, error) {
	if len(columns) == 1 && columns[0].N == s.width {
		return from.Read(s.name, a.read)
	}
	return from.ReadColumns(s.name, a.read, columns)
}

// putRows writes whole rows of the array, starting with the given row.
func (a Array) putRows(backend compute.Backend, flat, rows any, row int) error {
	width := a.format.In
	switch {
	case a.part == vector:
		row *= width
		reflect.Copy(reflect.ValueOf(flat).Slice(row, reflect.ValueOf(flat).Len()), reflect.ValueOf(rows))
		if a.offset != 0 {
			for i := range reflect.ValueOf(rows).Len() {
				flat.([]float32)[row+i] += a.offset
			}
		}
	case a.part == plane:
		eachRow(rows.([]float32), width, func(i int, x []float32) { flat.([]float32)[row+i] = scaleOf(x) })
	case a.format.DType == dtypes.Int8:
		x := rows.([]float32)
		quantized := make([]int8, len(x))
		eachRow(x, width, func(i int, x []float32) { quantize(quantized[i*width:], x) })
		return a.format.Pack(backend, flat, quantized, row)
	default:
		return a.format.Pack(backend, flat, rows, row)
	}
	return nil
}

// cutColumns copies spans of a tensor's columns to rows of the given width, which are zero elsewhere.
func cutColumns(tensor any, s source, spans []span, width int) any {
	from := reflect.ValueOf(tensor)
	out := reflect.MakeSlice(from.Type(), s.rows*width, s.rows*width)
	size := int(from.Type().Elem().Size())
	bytes := func(x reflect.Value) []byte { return unsafe.Slice((*byte)(x.UnsafePointer()), x.Len()*size) }
	to, in := bytes(out), bytes(from)
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

// scaleOf returns the scale of a row: its largest magnitude divided by 127.
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

// fillStack is fill for a stack.
func (a Array) fillStack(backend compute.Backend, flats []any, from *models.Checkpoint) error {
	places := collective.Places(backend)
	for i, member := range a.members {
		size := member.Shape.Size()
		parts := make([]any, len(flats)) // nil for devices without a part
		for device, flat := range flats {
			index := i
			if a.experts > 0 {
				index -= a.split.group(places[device]) * a.experts
			}
			if flat != nil && index >= 0 && (a.experts == 0 || index < a.experts) {
				parts[device] = reflect.ValueOf(flat).Slice(index*size, (index+1)*size).Interface()
			}
		}
		if err := member.fill(backend, parts, from); err != nil {
			return fmt.Errorf("%s: %w", member.Name, err)
		}
	}
	return nil
}

// Shared reports whether the array is the same when it is loaded from either of two checkpoints: they share all tensors
// that it is made from.
func (a Array) Shared(x, y *models.Checkpoint) bool {
	for _, s := range a.sources {
		if !x.Shares(y, s.name) {
			return false
		}
	}
	return !slices.ContainsFunc(a.members, func(member Array) bool { return !member.Shared(x, y) })
}
