package prefix

// Namer names the pages of a sequence as it grows.
type Namer struct {
	Names    []Hash // names of its full pages
	seed     Hash
	tail     []int32 // tokens after the full pages
	pageSize int
}

// NewNamer starts with tokens, whose first pages have the names of chain. seed is the seed of [Chain].
func NewNamer(seed Hash, chain []Hash, tokens []int32, pageSize int) *Namer {
	n := &Namer{Names: chain[:len(chain):len(chain)], seed: seed, pageSize: pageSize}
	n.Push(tokens[len(chain)*pageSize:]...)
	return n
}

// Push adds tokens.
func (n *Namer) Push(tokens ...int32) {
	for _, t := range tokens {
		if n.tail = append(n.tail, t); len(n.tail) < n.pageSize {
			continue
		}
		last := n.seed
		if k := len(n.Names); k > 0 {
			last = n.Names[k-1]
		}
		n.Names = append(n.Names, Chain(last, n.tail, n.pageSize)...)
		n.tail = n.tail[:0]
	}
}
