package arch

import "math"

// Work is how many weights a token is multiplied with: in the layers, and for its logits. Of the experts of a layer
// only the chosen ones count.
func (c *Config) Work() (layers, logits int64) {
	return int64(math.Round(c.Read(1))), int64(c.VocabSize) * int64(c.HiddenSize)
}

// Read is how many weights of the layers' matrices a step of so many tokens reads in the mean, if they choose experts
// evenly.
func (c *Config) Read(tokens float64) float64 {
	total := float64(c.LayerEmbedding*c.NumLayers) * float64(c.HiddenSize) // what makes embeddings of hidden states
	for i := range c.Layers {
		experts := c.Layers[i].Experts
		for _, t := range c.layerTensors(i) {
			if len(t.Shape) != 2 || t.Part == ConvTaps {
				continue
			}
			n := float64(t.Shape[0]) * float64(t.Shape[1])
			if t.Experts > 0 { // one of Count, each of the same size
				n *= 1 - math.Pow(1-float64(experts.Chosen)/float64(experts.Count), tokens)
			}
			total += n
		}
	}
	return total
}
