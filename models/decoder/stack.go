package decoder

import (
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/models/arch"
)

// expertArray returns the name of the stack that an expert's array is a member of.
func expertArray(a Array) (stack string, ok bool) {
	layer, name, ok := strings.Cut(a.Name, "."+arch.ExpertPrefix)
	_, name, _ = strings.Cut(name, ".")
	return layer + "." + arch.ExpertPrefix + name, ok
}

// stack replaces arrays that are members of the same stack by one array, [members, ...], with the stack's name.
func stack(list []Array, member func(a Array) (stack string, ok bool)) []Array {
	var out []Array
	index := map[string]int{}
	for _, a := range list {
		name, ok := member(a)
		if !ok {
			out = append(out, a)
			continue
		}
		i, seen := index[name]
		if !seen {
			i = len(out)
			index[name] = i
			whole := a
			whole.Name, whole.sources, whole.members, whole.experts = name, nil, nil, 0
			out = append(out, whole)
		}
		whole := &out[i]
		whole.members = append(whole.members, a)
		whole.Shape = shapes.Make(a.Shape.DType, slices.Insert(slices.Clone(a.Shape.Dimensions), 0,
			len(whole.members))...)
	}
	return out
}

// shareOut divides the stacks of experts among groups of devices, and adds the array of the group's number.
func shareOut(list []Array, split Partition) []Array {
	for i := range list {
		a := &list[i]
		if a.members != nil {
			a.split, a.experts = split, split.experts(len(a.members))
			a.Shape = a.Shape.Clone()
			a.Shape.Dimensions[0] = a.experts
		}
	}
	return append(list, Array{Name: groupName, Shape: shapes.Make(dtypes.Int32), part: expertGroup, split: split})
}
