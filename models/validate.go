package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/models/arch"
)

// Validate compares the checkpoint's tensors with the tensors that its config implies. The error lists every missing
// tensor, wrong shape and unreadable type at once; warnings names the tensors that the model does not use. Rotary
// frequency tables, and the output matrix of a model with tied embeddings, are derived data and give no warning.
func (c *Checkpoint) Validate() (warnings []string, err error) {
	var problems []string
	known := map[string]bool{arch.NameHead: true}
	for spec := range c.Config.Tensors() {
		known[spec.Name] = true
		t, name := c.tensors[spec.Name], spec.Name
		if c.gguf { // the name in its file
			name = spec.GGUF
		}
		switch {
		case t == nil:
			problems = append(problems, fmt.Sprintf("%s is missing (expected shape %v)", name, spec.Shape))
		case !slices.Equal(t.shape, spec.Shape) && !(spec.Part == arch.ConvTaps && isTaps(t.shape, spec.Shape)):
			problems = append(problems, fmt.Sprintf("%s has shape %v, but the config implies %v", name, t.shape,
				spec.Shape))
		case t.decode == nil:
			problems = append(problems, fmt.Sprintf("%s has dtype %s, which is not supported (F32, BF16 and F16 are)",
				name, t.stored))
		}
	}
	for _, name := range c.names {
		if !known[name] && !strings.HasSuffix(name, "rotary_emb.inv_freq") && !slices.Contains(arch.RopeTensors, name) {
			t := c.tensors[name]
			if c.gguf {
				name = t.name
			}
			warnings = append(warnings, fmt.Sprintf("tensor %s %v in %s is not used by %s", name, t.shape, t.file,
				c.Config.Architecture))
		}
	}
	if len(problems) > 0 {
		const shown = 20
		if extra := len(problems) - shown; extra > 0 {
			problems = append(problems[:shown], fmt.Sprintf("and %d more", extra))
		}
		err = withStale(c, fmt.Errorf("checkpoint %s does not fit its config: %s", c.Ref, strings.Join(problems, "; ")))
	}
	return warnings, err
}

// isTaps reports whether a shape is [channels, 1, taps], as in the convolutions of Hugging Face's checkpoints.
func isTaps(shape, want []int) bool {
	return len(shape) == 3 && shape[1] == 1 && slices.Equal([]int{shape[0], shape[2]}, want)
}

// Fits reports how the checkpoint differs from a running one so that it cannot take its place.
func (c *Checkpoint) Fits(running *Checkpoint) error {
	for _, layer := range c.layers {
		if err := sameConfig(&layer.Config, &running.Config); err != nil {
			return err
		}
	}
	if err := sameConfig(&c.Config, &running.Config); err != nil {
		return err
	}
	if _, err := c.Validate(); err != nil {
		return err
	}
	for spec := range running.Config.Tensors() {
		now, then := c.tensors[spec.Name], running.tensors[spec.Name]
		if now != nil && then != nil && now.stored != then.stored && (now.quantized() || then.quantized()) {
			return fmt.Errorf("tensor %s is stored as %s, and the running model's as %s: give it in that form",
				spec.Name, now.stored, then.stored)
		}
	}
	return nil
}
