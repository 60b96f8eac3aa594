package ask

// CommonPrefix is the tokens that all prompts seen so far begin with.
type CommonPrefix struct {
	Tokens []int32
	seen   bool
}

// Add takes another prompt.
func (c *CommonPrefix) Add(prompt []int32) {
	if !c.seen {
		c.Tokens, c.seen = prompt, true
		return
	}
	n := 0
	for n < min(len(c.Tokens), len(prompt)) && c.Tokens[n] == prompt[n] {
		n++
	}
	c.Tokens = c.Tokens[:n]
}
