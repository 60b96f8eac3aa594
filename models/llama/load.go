package llama

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/models"
)

// placer is a backend whose device memory the host can write: an array is made there, without a copy.
type placer interface {
	// NewZeros returns an array of zeros and a slice over its storage.
	NewZeros(device compute.DeviceNum, shape shapes.Shape) (buffer compute.Buffer, flat any, err error)
	HostWritable() bool
}

// Load reads an array from a checkpoint to a device of the backend that [Arrays] was told. A matrix goes from the mapped file to where it
// stays, packed on the way; the pages of the file are given back.
func (a Array) Load(backend compute.Backend, device compute.DeviceNum, from *models.Checkpoint) (compute.Buffer, error) {
	var buffer compute.Buffer
	var flat any
	var err error
	p, inPlace := backend.(placer)
	if inPlace = inPlace && p.HostWritable(); inPlace {
		buffer, flat, err = p.NewZeros(device, a.Shape)
	} else {
		flat = reflect.MakeSlice(reflect.SliceOf(a.Shape.DType.GoType()), a.Shape.Size(), a.Shape.Size()).Interface()
	}
	if err == nil {
		err = a.fill(backend, flat, from)
	}
	if err == nil && !inPlace {
		buffer, err = backend.BufferFromFlatData(device, flat, a.Shape)
	}
	if err != nil {
		if buffer != nil {
			_ = buffer.Finalize()
		}
		return nil, fmt.Errorf("loading %s: %w", a.Name, err)
	}
	return buffer, nil
}

// fill writes the array's elements to flat, which holds zeros.
func (a Array) fill(backend compute.Backend, flat any, from *models.Checkpoint) error {
	row, rows := 0, a.Shape.Dimensions[0] // of the matrix, or elements of a vector
	width := 1
	if a.part != vector {
		rows, width = a.format.Out, a.format.In
	}
	for _, source := range a.Sources {
		tensor, err := from.Read(source, a.read)
		if err != nil {
			return err
		}
		n := reflect.ValueOf(tensor).Len() / width
		if n*width != reflect.ValueOf(tensor).Len() || row+n > rows {
			return fmt.Errorf("tensor %s has %d values, which is no number of rows of %d that fits [%d, %d]", source, reflect.ValueOf(tensor).Len(), width, rows, width)
		}
		switch {
		case a.part == vector:
			reflect.Copy(reflect.ValueOf(flat).Slice(row, row+n), reflect.ValueOf(tensor))
		case a.part == scales:
			eachRow(tensor.([]float32), width, func(i int, x []float32) { flat.([]float32)[row+i] = scaleOf(x) })
		case a.format.DType == dtypes.Int8:
			quantized := make([]int8, n*width)
			eachRow(tensor.([]float32), width, func(i int, x []float32) { quantize(quantized[i*width:], x) })
			err = a.format.Pack(backend, flat, quantized, row)
		default:
			err = a.format.Pack(backend, flat, tensor, row)
		}
		if err != nil {
			return err
		}
		from.Release(source)
		row += n
	}
	if row != rows {
		return fmt.Errorf("its tensors have %d rows, %d are needed", row, rows)
	}
	return nil
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
