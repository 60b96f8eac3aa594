package models

import (
	"fmt"

	"github.com/quire/quire/models/internal/mapped"
	"github.com/quire/quire/models/quantized"
)

// assemble makes the matrices of a quantized checkpoint out of the tensors of its files.
func assemble(c *Checkpoint) error {
	scheme, err := quantized.Parse(c.Config.Quantization)
	if scheme == nil || err != nil {
		return err
	}
	c.scheme = scheme
	modules := map[string]map[string]*tensor{}
	for name, t := range c.tensors {
		if module, suffix, ok := scheme.Part(name); ok {
			if modules[module] == nil {
				modules[module] = map[string]*tensor{}
			}
			modules[module][suffix] = t
		}
	}
	for name, parts := range modules {
		t, err := assembled(scheme, name, parts)
		if err != nil {
			return err
		}
		for suffix := range parts {
			if suffix != "weight" || t != nil {
				delete(c.tensors, name+"."+suffix)
			}
		}
		if t != nil {
			c.tensors[name+".weight"] = t
		}
	}
	return nil
}

// assembled makes the matrix of a module; nil if it has none that is quantized.
func assembled(scheme *quantized.Scheme, name string, parts map[string]*tensor) (*tensor, error) {
	tensors := map[string]quantized.Tensor{}
	p := &packed{}
	var first *tensor // the largest part
	for suffix, t := range parts {
		tensors[suffix] = quantized.Tensor{DType: t.stored, Shape: t.shape, Data: t.data}
		if scheme.Small(suffix) {
			if err := t.bring(Range{0, int64(len(t.data))}); err != nil {
				return nil, err
			}
		}
		if first == nil || len(t.data) > len(first.data) || len(t.data) == len(first.data) && t.name < first.name {
			first = t
		}
		p.parts = append(p.parts, t)
	}
	module, _, _ := scheme.Part(first.name)
	err := mapped.Guard(func() (err error) {
		p.matrix, err = scheme.Matrix(quantized.Module{Stored: module, Name: name}, tensors)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tensor %s in %s: %w", first.name, first.file, err)
	}
	if p.matrix == nil {
		return nil, nil
	}
	return packedTensor(p, first.file), nil
}
