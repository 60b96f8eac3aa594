package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
)

// ropes fills c.Ropes, with transformers' precedence between the two formats: transformers 4 has rope_theta and
// rope_scaling, transformers 5 rope_parameters.
func (j *JSON) ropes(c *Config, absent Defaults) error {
	if absent.LocalTheta > 0 {
		return j.ropesOfTypes(c, absent)
	}
	key := "rope_scaling"
	if raw := strings.TrimSpace(string(j.fields[key])); !j.Has(key) || raw == "{}" {
		key = "rope_parameters"
	}
	set, err := j.object(key)
	if err != nil {
		return err
	}
	for name, value := range set.fields {
		if strings.HasPrefix(string(value), "{") {
			return Unsupported("one set for all layers is", "%s for each layer type (%q)", key, name)
		}
	}
	r, err := j.rope(c, set, key, j.Float("rope_theta", absent.Theta), absent)
	c.Ropes = []Rope{r}
	return err
}

// ropesOfTypes reads one for each type of layers: FullRope and LocalRope. rope_scaling is of the first.
func (j *JSON) ropesOfTypes(c *Config, absent Defaults) error {
	const key = "rope_parameters"
	types, err := j.object(key)
	if err != nil {
		return err
	}
	for name := range types.fields {
		if name != fullAttention && name != slidingAttention {
			return Unsupported(fullAttention+" and "+slidingAttention+" are", "%q of %s", name, key)
		}
	}
	full, err := types.object(fullAttention)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	sliding, err := types.object(slidingAttention)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	scaling, err := j.object("rope_scaling")
	if err != nil {
		return err
	}
	maps.Copy(full.fields, scaling.fields)
	c.Ropes = make([]Rope, 2)
	if c.Ropes[FullRope], err = j.rope(c, full, key, j.Float("rope_theta", absent.Theta), absent); err != nil {
		return err
	}
	c.Ropes[LocalRope], err = j.rope(c, sliding, key, j.Float("rope_local_base_freq", absent.LocalTheta), absent)
	return err
}

// rope reads one rotary embedding from set, the object of a key; theta is the default if the object has none.
func (j *JSON) rope(c *Config, set *JSON, key string, theta float64, absent Defaults) (Rope, error) {
	rope := Rope{Theta: set.Float("rope_theta", theta)}
	typ := set.String("rope_type", set.String("type", "default"))
	if typ == "proportional" {
		if rope.Share = set.Float("partial_rotary_factor", 1); rope.Share == 0 {
			return rope, errors.New("partial_rotary_factor is 0; it must be above 0 and at most 1")
		}
	} else if err := j.partial(c, set, &rope, absent.Partial); err != nil {
		return rope, err
	}
	original := j.Int("original_max_position_embeddings", set.Int("original_max_position_embeddings", c.MaxPositions))
	s := &RopeScaling{Type: typ, AttentionFactor: 1, ScaleAllDims: set.Float("mscale_all_dim", 0)}
	switch typ {
	case "default", "none":
		s = nil
	case "proportional":
		if s.Type, s.Factor = "linear", set.Float("factor", 1); s.Factor == 1 {
			s = nil
		}
	case "linear":
		s.Factor = set.requiredFloat("factor")
	case "llama3":
		s.Factor, s.OriginalMaxPositions = set.requiredFloat("factor"), original
		s.LowFreqFactor, s.HighFreqFactor = set.requiredFloat("low_freq_factor"), set.requiredFloat("high_freq_factor")
	case "yarn":
		s.OriginalMaxPositions = original
		s.Factor = set.Float("factor", float64(c.MaxPositions)/float64(max(original, 1)))
		s.BetaFast, s.BetaSlow = set.Float("beta_fast", 32), set.Float("beta_slow", 1)
		s.Truncate = set.Bool("truncate", true)
		s.AttentionFactor = set.Float("attention_factor",
			yarnAttentionFactor(s.Factor, set.Float("mscale", 0), set.Float("mscale_all_dim", 0)))
	case "longrope":
		s.OriginalMaxPositions = original
		s.Factor = set.Float("factor", float64(c.MaxPositions)/float64(max(original, 1)))
		s.AttentionFactor = set.Float("attention_factor", longAttentionFactor(s.Factor, original))
		s.Factor, s.Divisors = max(s.Factor, 1), &Divisors{}
		set.Decode("short_factor", &s.Divisors.Short)
		set.Decode("long_factor", &s.Divisors.Long)
	case "ntk":
		if !absent.NTK || set.Has("mixed_b") {
			return rope, Unsupported("", "rope type ntk in a %s, or with mixed_b", c.Architecture)
		}
		// A larger base, and all frequencies divided by the same number.
		factor := set.requiredFloat("factor")
		rope.Theta *= factor
		s.Type, s.Factor = "linear", math.Pow(factor, 2/float64(c.HeadDim))
	default:
		return rope, Unsupported("default, linear, llama3, yarn, longrope and proportional are", "rope type %q", typ)
	}
	if set.err != nil {
		return rope, fmt.Errorf("%s: %w", key, set.err)
	}
	rope.Scaling = s
	return rope, nil
}

// partial reads how much of a head is turned; absent is the default of a class that can turn a part of a head, 0 for
// other classes.
func (j *JSON) partial(c *Config, set *JSON, rope *Rope, absent float64) error {
	partial := set.Float("partial_rotary_factor", j.Float("partial_rotary_factor", max(absent, 0)))
	switch {
	case partial == 1 || absent == 0 && partial == 0:
	case absent == 0:
		return Unsupported("the whole head must be rotated", "partial_rotary_factor %g in a %s", partial,
			c.Architecture)
	case !(partial > 0 && partial < 1):
		return fmt.Errorf("partial_rotary_factor is %g; it must be above 0 and at most 1", partial)
	default:
		rope.Dims = int(float64(c.HeadDim) * partial)
	}
	return nil
}

// object reads an object. The object is empty if the key is absent.
func (j *JSON) object(key string) (*JSON, error) {
	if !j.Has(key) {
		return &JSON{fields: map[string]json.RawMessage{}}, nil
	}
	o, err := newJSON(j.fields[key])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return o, nil
}
