package xla

import (
	"encoding/json"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	"github.com/gomlx/go-xla/types"
)

// collectives are the composites by which the devices of a group exchange numbers; every device must come to each in
// the same order.
//
//	all_reduce   the sum of the devices' arrays, on each of them
//	all_gather   the devices' arrays one behind the other on an axis, in the order of the group,
//	             on each of them: attribute axis
var collectives = map[string]emitter{
	"all_reduce": emitAllReduce,
	"all_gather": emitAllGather,
}

// across are the arguments that make a collective one over all devices of a group. Each has a channel of its own.
func (f *function) across() (groups [][]int, config *types.CollectiveConfig) {
	all := make([]int, f.b.backend.spmd())
	for i := range all {
		all[i] = i
	}
	f.b.channels++
	channel := f.b.channels
	return [][]int{all}, &types.CollectiveConfig{ChannelType: types.CrossPartition, ChannelID: &channel}
}

// global makes the numbers of the last statement's groups those of devices, which partitions are told apart by. The
// builder's own way to say so prints what is no attribute of this kind.
func (f *function) global() {
	f.fn.Statements[len(f.fn.Statements)-1].Attributes["use_global_device_ids"] = mlir("unit")
}

func emitAllReduce(f *function, _ json.RawMessage, inputs []*stablehlo.Value, _ []shapes.Shape) ([]*stablehlo.Value,
	error) {
	if len(inputs) != 1 {
		return nil, fmt.Errorf("it takes one array, not %d", len(inputs))
	}
	if f.b.backend.exchanges() {
		return f.sumOver(inputs[0])
	}
	sum, err := f.combiner(reducer{compute.OpTypeReduceSum, inputs[0].Shape().DType})
	if err != nil {
		return nil, err
	}
	groups, config := f.across()
	out, err := stablehlo.AllReduce(inputs, groups, sum, config)
	if err != nil {
		return nil, err
	}
	f.global()
	return out, nil
}

func emitAllGather(f *function, attrs json.RawMessage, inputs []*stablehlo.Value, _ []shapes.Shape) ([]*stablehlo.Value,
	error) {
	var a struct{ Axis int }
	if err := json.Unmarshal(attrs, &a); err != nil {
		return nil, fmt.Errorf("attributes %s: %w", attrs, err)
	}
	if len(inputs) != 1 {
		return nil, fmt.Errorf("it takes one array, not %d", len(inputs))
	}
	if f.b.backend.exchanges() {
		return f.concatenateOver(inputs[0], a.Axis)
	}
	out, err := f.gather(inputs[0], a.Axis)
	return []*stablehlo.Value{out}, err
}

// gather is what the devices that run the program have, one behind the other on an axis.
func (f *function) gather(x *stablehlo.Value, axis int) (*stablehlo.Value, error) {
	groups, config := f.across()
	out, err := stablehlo.AllGather(x, groups, axis, config)
	if err != nil {
		return nil, err
	}
	f.global()
	return out, nil
}
