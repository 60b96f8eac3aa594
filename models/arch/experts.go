package arch

import "fmt"

// Experts is a mixture: a token goes through the feed-forwards of some experts, which a router chooses, and the result
// is their sum by shares. The zero value is one feed-forward for all tokens.
type Experts struct {
	Count  int // 0: no mixture
	Chosen int // for each token, those with the largest scores
	Size   int // width of an expert's feed-forward
	// Renormalize makes the shares of the chosen add up to 1. A share is the softmax of the scores of all experts.
	Renormalize bool
}

func (e Experts) check(layer int) error {
	switch {
	case e.Count == 0:
		return nil
	case e.Count < 1 || e.Count > 1<<14 || e.Chosen < 1 || e.Chosen > e.Count:
		return fmt.Errorf("layer %d takes %d of %d experts", layer, e.Chosen, e.Count)
	case e.Size < 1 || e.Size > maxDimension:
		return fmt.Errorf("the experts of layer %d are %d wide; it must be between 1 and %d", layer, e.Size,
			maxDimension)
	}
	return nil
}

// ExpertPrefix begins the names of the arrays of expert number n of a layer, behind the layer's: "experts.n.".
const ExpertPrefix = "experts."
