package models

import (
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
)

// Queries, keys and values in one tensor, with biases in one and with three, are what they are in three tensors.
func TestGGUFWithJoinedQKV(t *testing.T) {
	read := func(c *Checkpoint, name string) []float32 {
		flat, err := c.Read("model.layers.0.self_attn."+name, dtypes.Float32)
		if err != nil {
			t.Fatal(err)
		}
		return flat.([]float32)
	}
	join := func() ggufFile {
		g := tinyGGUF()
		for _, part := range []string{"q", "k", "v"} {
			delete(g.tensors, "blk.0.attn_"+part+".weight")
		}
		g.tensors["blk.0.attn_qkv.weight"] = []int{16, 8}
		return g
	}
	one, three := join(), join()
	one.tensors["blk.0.attn_qkv.bias"] = []int{16}
	three.tensors["blk.0.attn_q.bias"], three.tensors["blk.0.attn_k.bias"] = []int{8}, []int{4}
	three.tensors["blk.0.attn_v.bias"] = []int{4}
	for name, g := range map[string]ggufFile{"one bias": one, "three biases": three} {
		c := openTest(t, g.write(t))
		if warnings, err := c.Validate(); err != nil || len(warnings) > 0 || !c.Config.Layers[0].QKVBias {
			t.Fatalf("%s: warnings %v, error %v, biases %t", name, warnings, err, c.Config.Layers[0].QKVBias)
		}
		q, k, v := read(c, "q_proj.weight"), read(c, "k_proj.weight"), read(c, "v_proj.weight")
		// Numbers of the file count up. Rows of queries and keys lie so that neighbours are turned.
		if q[8]-q[0] != 2*8 || k[0]-q[0] != 8*8 || k[8]-k[0] != 2*8 || v[0]-q[0] != 12*8 || v[8]-v[0] != 8 {
			t.Errorf("%s: rows begin with %g %g, %g %g, %g %g", name, q[0], q[8], k[0], k[8], v[0], v[8])
		}
		q, k, v = read(c, "q_proj.bias"), read(c, "k_proj.bias"), read(c, "v_proj.bias")
		if q[1]-q[0] != 2 || k[1]-k[0] != 2 || v[1]-v[0] != 1 {
			t.Errorf("%s: biases are %g, %g, %g", name, q, k, v)
		}
	}
	one.tensors["blk.0.attn_qkv.weight"] = []int{15, 8}
	_, err := Open(one.write(t))
	if err == nil || !strings.Contains(err.Error(), "blk.0.attn_qkv.weight has shape [15 8]") {
		t.Errorf("with a row less: %v", err)
	}
}
