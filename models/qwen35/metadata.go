package qwen35

import (
	"fmt"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/models/arch"
)

// keysOfGGUF are the keys of files of all kinds. The tensors show which layers attend. Sections of rope are for
// pictures: a token of text has the same position in all of them.
var keysOfGGUF = []string{"ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank",
	"ssm.group_count", "full_attention_interval", "attention.recurrent_layers", "rope.dimension_sections",
	"nextn_predict_layers", "expert_shared_feed_forward_length"}

// readMetadata reads a GGUF file.
func (k kind) readMetadata(m *arch.Metadata, c *arch.Config) error {
	if err := m.WithoutPredictors(c); err != nil {
		return err
	}
	inner, net := m.Int("ssm.inner_size", 0), arch.DeltaNet{KeyHeads: m.Int("ssm.group_count", 0),
		ValueHeads: m.Int("ssm.time_step_rank", 0), KeyDim: m.Int("ssm.state_size", 0)}
	if net.ValueHeads < 1 || inner%net.ValueHeads != 0 {
		return fmt.Errorf("ssm.inner_size is %d for %s", inner, plural.Count(net.ValueHeads, "head"))
	}
	net.ValueDim = inner / net.ValueHeads
	net.Tiled = !k.byHead && net.ValueHeads != net.KeyHeads
	taps, whole := m.Int("ssm.conv_kernel", 0), false
	for i := range c.Layers {
		l, has := &c.Layers[i], func(name string) bool { return m.HasTensor(fmt.Sprintf("blk.%d.%s", i, name)) }
		if has("ssm_conv1d.weight") {
			l.Mixer, l.Delta, l.Taps, l.Rope = arch.Delta, net, taps, arch.NoRope
		} else {
			l.QKNorm, l.Gate = arch.EachHead, true
		}
		whole = whole || has("ssm_in.weight")
	}
	if k.byHead && !whole { // llama.cpp writes them so since December 2025
		c.Names = c.Names.With(arch.Names{arch.DeltaQKV: inputs[arch.DeltaQKV]})
		delete(c.Names, arch.DeltaQKVGate)
	}
	if k.experts == nil {
		return nil
	}
	return m.Experts(c, true)
}
