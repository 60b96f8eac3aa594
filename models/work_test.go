package models

import (
	"path/filepath"
	"testing"
)

// Work is the matrices that a token goes through: with experts, those that are chosen. Many tokens read all.
func TestWork(t *testing.T) {
	for family, want := range map[string]int64{
		// 3 layers of q and o of 32 x 32, k and v of 8 x 32, gate, up, down of 48 x 32.
		"llama3": 3 * (2*32*32 + 2*8*32 + 3*48*32),
		// q and o of 64 x 32, k and v of 32 x 32; a dense layer, and two with a router and 3 of its experts of 20 x 32.
		"qwen3-moe": 3*(2*64*32+2*32*32) + 3*48*32 + 2*(6*32+3*3*20*32),
	} {
		c, err := OpenConfig(filepath.Join("..", "testdata", "models", family))
		if err != nil {
			t.Fatal(err)
		}
		layers, logits := c.Config.Work()
		if layers != want || logits != 256*32 {
			t.Errorf("%s: %d weights in layers, want %d, and %d of logits", family, layers, want, logits)
		}
		all := float64(want)
		if e := c.Config.Layers[0].Experts; e.Count > 0 {
			all += float64(2 * (e.Count - e.Chosen) * 3 * 20 * 32)
			if two := c.Config.Read(2); two != float64(want)+2*(0.75*6-3)*3*20*32 { // 1 - (1 - 3/6)^2 of 6
				t.Errorf("%s: two tokens read %g weights of layers", family, two)
			}
		}
		if read := c.Config.Read(1000); read != all {
			t.Errorf("%s: 1,000 tokens read %g weights of layers, want %g", family, read, all)
		}
	}
}
