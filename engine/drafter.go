package engine

import (
	"errors"
	"fmt"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/models/decoder"
)

// Drafter is the model of a plan that drafts tokens.
type Drafter struct {
	Model       string `json:"model"`
	Parameters  int64  `json:"parameters"`
	DType       string `json:"dtype"`
	Weights     string `json:"weights,omitempty"` // as in [Plan]
	WeightBytes int64  `json:"weight_bytes"`
	// KVBytesPerToken is what a token takes in its layers, in the same pages as the model's.
	KVBytesPerToken int64 `json:"kv_bytes_per_token"`

	layouts []attention.Layout
}

// String is a row of a plan.
func (d *Drafter) String() string {
	held := d.DType
	if d.Weights != "" {
		held = fmt.Sprintf("%s, activations in %s", d.Weights, d.DType)
	}
	return fmt.Sprintf("%s, %s parameters in %s, %s; %s of the pages a token", d.Model, count(d.Parameters), held,
		bytesText(d.WeightBytes), bytesText(d.KVBytesPerToken))
}

// drafter is the config of the draft model, as if it ran alone. It has the model's types: those are what a job keeps.
func (c Config) drafter() Config {
	c.DType, c.KVDType, _ = c.dtypes() // plan has checked them
	c.Model, c.DraftModel = c.DraftModel, nil
	return c
}

// checkDrafter refuses what no model drafts for.
func (c Config) checkDrafter(p Plan) error {
	switch {
	case c.DraftModel == nil:
		return nil
	case c.Speculate == 0:
		return errors.New("there is a draft model, and speculate is off: use auto or a number, or no draft model")
	case c.Hosts != nil || p.Devices > 1:
		return errors.New("a draft model runs on one device: use no draft model, or tp 1 and one process")
	case p.Layers == LayersLoop:
		return errors.New("layers is loop, which a draft model has none of: use layers unrolled, or no draft model")
	case c.DraftModel.Config.HasStates():
		return fmt.Errorf("the draft model, %s, has layers that keep a state of a sequence, which can't go back "+
			"behind a draft that is refused: use another one", c.DraftModel.Config.Architecture)
	}
	return nil
}

// setDrafter settles how the draft model is held.
func (p *Plan) setDrafter(c Config) {
	if c.DraftModel == nil {
		return
	}
	d := c.drafter()
	of := Plan{DType: d.DType.String()}
	of.setWeights(d)
	p.Drafter = &Drafter{Model: d.Model.Config.Architecture, Parameters: d.Model.NumParameters(), DType: of.DType,
		Weights: of.Weights, WeightBytes: of.WeightBytes, layouts: d.layouts(*p, d.KVDType)}
	p.Drafter.KVBytesPerToken, _ = bytesOf(p.Drafter.layouts)
}

func (d *Drafter) setPages(pages int) {
	if d == nil {
		return
	}
	for i := range d.layouts {
		d.layouts[i].Pages = pages
	}
}

// AllWeightBytes is what the weights of the model and the draft model take.
func (p Plan) AllWeightBytes() int64 {
	if p.Drafter == nil {
		return p.WeightBytes
	}
	return p.WeightBytes + p.Drafter.WeightBytes
}

// drafterGraphs are the graphs of the draft model; nil where there is none.
func (c Config) drafterGraphs(p Plan) *device.Graphs {
	if p.Drafter == nil {
		return nil
	}
	d, sizes := c.drafter(), p.sizes()
	sizes.Layouts = p.Drafter.layouts
	return &device.Graphs{Sizes: sizes, Model: p.model(d), Arrays: decoder.Arrays(d.model(), d.storage()),
		DType: d.DType, ZeroPages: c.ZeroPages}
}
