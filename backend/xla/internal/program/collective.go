package program

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	"github.com/gomlx/go-xla/types"

	"github.com/quire/quire/backend/xla/cpukernel"
)

// Collectives are the composites by which the devices of a group exchange numbers. Every device must reach them in the
// same order.
//
//	all_reduce   the sum of the devices' arrays, on each of them
//	all_gather   the devices' arrays concatenated on an axis, in the order of the group,
//	             on each of them: attribute axis
//	all_to_all   for each device the parts of its place, i32[], of all devices' arrays,
//	             which are divided on the axis split, concatenated on the axis concat
var Collectives = map[string]Emitter{
	"all_reduce": emitAllReduce,
	"all_gather": emitAllGather,
	"all_to_all": emitAllToAll,
}

// across returns the arguments of a collective over all devices of a group. Each collective has its own channel.
func across(f *Function) (groups [][]int, config *types.CollectiveConfig) {
	all := make([]int, f.b.target.compiledFor())
	for i := range all {
		all[i] = i
	}
	f.b.channels++
	channel := f.b.channels
	return [][]int{all}, &types.CollectiveConfig{ChannelType: types.CrossPartition, ChannelID: &channel}
}

// global makes the last statement's groups consist of device numbers, which distinguish partitions. The builder's own
// option prints an attribute of another kind.
func global(f *Function) {
	f.LastStatement().Attributes["use_global_device_ids"] = MLIR("unit")
}

func emitAllReduce(f *Function, _ json.RawMessage, inputs []*stablehlo.Value, _ []shapes.Shape) ([]*stablehlo.Value,
	error) {
	if len(inputs) != 1 {
		return nil, fmt.Errorf("it takes one array, not %d", len(inputs))
	}
	if f.b.target.Exchange {
		return sumOver(f, inputs[0])
	}
	sum, err := f.combiner(reducer{compute.OpTypeReduceSum, inputs[0].Shape().DType})
	if err != nil {
		return nil, err
	}
	groups, config := across(f)
	out, err := stablehlo.AllReduce(inputs, groups, sum, config)
	if err != nil {
		return nil, err
	}
	global(f)
	return out, nil
}

func emitAllGather(f *Function, attrs json.RawMessage, inputs []*stablehlo.Value, _ []shapes.Shape) ([]*stablehlo.Value,
	error) {
	var a struct{ Axis int }
	if err := json.Unmarshal(attrs, &a); err != nil {
		return nil, fmt.Errorf("attributes %s: %w", attrs, err)
	}
	if len(inputs) != 1 {
		return nil, fmt.Errorf("it takes one array, not %d", len(inputs))
	}
	if f.b.target.Exchange {
		return concatenateOver(f, inputs[0], a.Axis)
	}
	out, err := gather(f, inputs[0], a.Axis)
	return []*stablehlo.Value{out}, err
}

func emitAllToAll(f *Function, attrs json.RawMessage, inputs []*stablehlo.Value, _ []shapes.Shape) ([]*stablehlo.Value,
	error) {
	var a struct{ Split, Concat int }
	if err := json.Unmarshal(attrs, &a); err != nil {
		return nil, fmt.Errorf("attributes %s: %w", attrs, err)
	}
	if len(inputs) != 2 {
		return nil, fmt.Errorf("it takes an array and a place, not %d", len(inputs))
	}
	if f.b.target.Exchange {
		return partsOver(f, inputs[0], inputs[1], a.Split, a.Concat)
	}
	groups, config := across(f)
	out, err := stablehlo.AllToAll(inputs[0], groups, a.Split, a.Concat, len(groups[0]), config)
	return []*stablehlo.Value{out}, err
}

// gather concatenates on an axis what the devices that run the program have.
func gather(f *Function, x *stablehlo.Value, axis int) (*stablehlo.Value, error) {
	groups, config := across(f)
	out, err := stablehlo.AllGather(x, groups, axis, config)
	if err != nil {
		return nil, err
	}
	global(f)
	return out, nil
}

// ofAll returns what all devices of the group have, [devices, ...] by place. Each device takes what the device with its
// number has in every other process, and then what the other devices of its process took.
func ofAll(f *Function, x *stablehlo.Value) (*stablehlo.Value, error) {
	processes, here := f.b.target.Processes, f.b.target.Here
	shape := FromXLA(x.Shape())
	wide := func(first ...int) shapes.Shape {
		return shapes.Make(shape.DType, append(first, shape.Dimensions...)...)
	}
	f.b.channels++
	config := fmt.Sprintf("{channel = %d : i64, devices = %d : i64}", f.b.channels, here)
	target, _ := cpukernel.ExchangeHandler()
	out, err := f.FFICall(target, config, []*stablehlo.Value{x}, []shapes.Shape{wide(processes)})
	if err != nil {
		return nil, err
	}
	// Without a side effect, calls with the same operand would be merged.
	f.LastStatement().Attributes["has_side_effect"] = MLIR("true")
	all := out[0]
	if here == 1 {
		return all, nil
	}
	if all, err = stablehlo.Reshape(all, ToXLA(wide(1, processes))); err != nil {
		return nil, err
	}
	if all, err = gather(f, all, 0); err != nil {
		return nil, err
	}
	order := []int{1, 0}
	for axis := range shape.Rank() {
		order = append(order, 2+axis)
	}
	if all, err = stablehlo.Transpose(all, order...); err != nil {
		return nil, err
	}
	return stablehlo.Reshape(all, ToXLA(wide(f.b.target.Partitions)))
}

// sumOver adds what all devices have, in the order of their places. As XLA's own sum on a CPU it adds numbers of 16
// bits in float32, and rounds once.
func sumOver(f *Function, x *stablehlo.Value) ([]*stablehlo.Value, error) {
	all, err := ofAll(f, x)
	if err != nil {
		return nil, err
	}
	shape := all.Shape()
	own := x.Shape().DType
	isShort := own == dtypes.BFloat16 || own == dtypes.Float16
	var sum *stablehlo.Value
	for place := range f.b.target.Partitions {
		from, to := make([]int, shape.Rank()), slices.Clone(shape.Dimensions)
		from[0], to[0] = place, place+1
		one, err := stablehlo.Slice(all, from, to, nil)
		if err == nil {
			one, err = stablehlo.Reshape(one, x.Shape())
		}
		if err == nil && isShort {
			one, err = stablehlo.Convert(one, dtypes.Float32)
		}
		if err == nil && sum != nil {
			one, err = stablehlo.Add(sum, one)
		}
		if err != nil {
			return nil, err
		}
		sum = one
	}
	if isShort {
		sum, err = stablehlo.Convert(sum, own)
	}
	return []*stablehlo.Value{sum}, err
}

// concatenateOver concatenates on an axis what all devices have, in the order of their places.
func concatenateOver(f *Function, x *stablehlo.Value, axis int) ([]*stablehlo.Value, error) {
	all, err := ofAll(f, x)
	if err != nil {
		return nil, err
	}
	out, err := joined(all, axis)
	return []*stablehlo.Value{out}, err
}

// partsOver takes the parts of a place, i32[], of what all devices have, and concatenates them in the order of the
// devices' places.
func partsOver(f *Function, x, place *stablehlo.Value, split, concat int) ([]*stablehlo.Value, error) {
	all, err := ofAll(f, x)
	if err != nil {
		return nil, err
	}
	shape := FromXLA(all.Shape())
	if split < 0 || split >= shape.Rank()-1 {
		return nil, fmt.Errorf("%s has no axis %d", FromXLA(x.Shape()), split)
	}
	size := shape.Dimensions[1+split] / f.b.target.Partitions
	zero, err := f.EmitScalar(int32(0))
	if err != nil {
		return nil, err
	}
	width, err := f.EmitScalar(int32(size))
	if err != nil {
		return nil, err
	}
	first, err := stablehlo.Multiply(place, width)
	if err != nil {
		return nil, err
	}
	starts := slices.Repeat([]*stablehlo.Value{zero}, shape.Rank())
	starts[1+split], shape.Dimensions[1+split] = first, size
	if all, err = stablehlo.DynamicSlice(all, starts, shape.Dimensions); err != nil {
		return nil, err
	}
	out, err := joined(all, concat)
	return []*stablehlo.Value{out}, err
}

// joined concatenates the rows of x [n, ...] on an axis of theirs.
func joined(x *stablehlo.Value, axis int) (*stablehlo.Value, error) {
	shape := FromXLA(x.Shape())
	row := shapes.Make(shape.DType, shape.Dimensions[1:]...)
	if axis < 0 || axis >= row.Rank() {
		return nil, fmt.Errorf("%s has no axis %d", row, axis)
	}
	var order []int
	for a := range row.Rank() {
		if a == axis {
			order = append(order, 0)
		}
		order = append(order, a+1)
	}
	x, err := stablehlo.Transpose(x, order...)
	if err != nil {
		return nil, err
	}
	row.Dimensions[axis] *= shape.Dimensions[0]
	return stablehlo.Reshape(x, ToXLA(row))
}
