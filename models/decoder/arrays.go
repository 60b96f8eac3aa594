// Package decoder computes models: it builds the graphs of all kinds of decoders from the records of their layers in
// [models.Config], and knows none by name.
//
// It does not open files: [Arrays] names the arrays it needs and the tensors of a checkpoint that they are made from.
package decoder

import (
	"fmt"
	"reflect"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/ops/linear"
)

// Storage describes how the arrays of a model are held.
type Storage struct {
	// Backend is the backend that holds them: its kernels may need packed matrices. If it is nil, all arrays are held
	// as in a checkpoint.
	Backend compute.Backend
	// DType is the dtype of arrays and activations: Float32, BFloat16 or Float16.
	DType dtypes.DType
	// Matrices is the dtype of matrices that are held as floats; DType by default.
	Matrices dtypes.DType
	// Int8 holds matrices as 8-bit integers with one scale per row.
	Int8 bool
	// Blocks returns the block format that a tensor is held in, by the tensor's name. It is called for matrices whose
	// rows, as devices hold them, are whole units; the zero format holds the tensor as floats. If Blocks is nil, no
	// tensor is held in blocks. Tensors that the checkpoint stores in a different form are rounded.
	Blocks func(tensor string) blocks.Format
	// LayerLoop holds the arrays of equal layers as one, [turns, ...], and makes [Hidden] run them as a loop: a
	// program then has fewer layers. Not every model allows it: see [LoopOf].
	LayerLoop bool
}

// Array is one array of the model on the device.
type Array struct {
	// Name is the array's name, such as "layers.3.qkv.weight". An array of several layers has the name of the first
	// one's array.
	Name string
	// Shape is [out] for a bias or a norm. Matrices [out, in] have the shape in which package linear holds them. If
	// several devices run the model together, it is the shape of each device's array.
	Shape shapes.Shape

	part    part
	plane   int           // the plane's index in linear.Format, for planes of a matrix
	sources []source      // concatenated along the first axis
	format  linear.Format // for matrices
	read    dtypes.DType  // the dtype that the sources are read as
	offset  float32       // added to the elements of a vector of float32

	activations dtypes.DType // dtype of the model's activations
	gateUp      bool         // for a matrix in parts: it has gates and ups

	split   Partition // for firstRow, firstKeys, expertGroup and experts
	perHead perHead   // for matrices of heads that are cut out of a tensor
	members []Array   // for stacks: the arrays along the first axis
	experts int       // how many members each device has, if they are divided; 0: all
	looped  bool      // it belongs to layers that run in a loop
}

// source is a tensor of the checkpoint, [rows, width], or [rows] with a width of 1.
type source struct {
	name        string // its Hugging Face name
	rows, width int
	held        int // how many rows of the array are for it on a device
	// columns reports whether spans are columns rather than rows. spans returns the parts of the tensor that a device
	// has.
	columns bool
	spans   func(device int) []span
}

// Matrix returns how the array holds a matrix; ok is false for other arrays.
func (a Array) Matrix() (f linear.Format, ok bool) { return a.format, a.part == matrix }

// part is the role of an array.
type part int

const (
	vector part = iota
	matrix
	plane    // a plane of a matrix after the first
	firstRow // the number of the device's first row of the vocabulary
	// one number for each KV slot of the device: 1, or 0 if an earlier slot has the same head or the slot is empty
	firstKeys
	// The number of the device's group: see [Partition].
	expertGroup
)

// The names of arrays that are computed, not read.
const (
	firstRowName  = "embed.first"
	firstKeysName = "keys.first"
	groupName     = "experts.group"
)

const (
	layerPrefix = "layers."
	biasSuffix  = ".bias"
)

// perHead describes the place of each head's matrix in a tensor whose rows are grouped by head.
type perHead struct {
	rows        int // rows of a head in the tensor
	first, n    int // the rows of the head that are the matrix
	transposed  bool
	headsOnEach int // heads of the model on each device
}

func (s source) check(flat any, want int) error {
	if n := reflect.ValueOf(flat).Len(); n != want {
		return fmt.Errorf("tensor %s has %d values, not %d, in rows of %d", s.name, n, want, s.width)
	}
	return nil
}
