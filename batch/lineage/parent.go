package lineage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/internal/visible"
)

// Parent is what rows need of the one that they continue: the tokens of its prompt, and its completions.
type Parent struct {
	Prompt  []int32
	Results []completion.Result // in order of generation; a row that could not be run has one, with an error
}

// Failed reports whether the row could not be run.
func (p *Parent) Failed() bool { return len(p.Results) == 1 && p.Results[0].Err != "" }

// End returns the tokens that a row continues: the prompt, and what is wanted of a completion.
func (p *Parent) End(parent promptset.Parent) ([]int32, error) {
	if p.Failed() {
		return nil, fmt.Errorf("parent %s has an error, and there is nothing to go on from", visible.Quoted(parent.ID))
	}
	first, last := p.Results[0].Generation, p.Results[len(p.Results)-1].Generation
	wanted := first
	if parent.Generation != nil {
		wanted = *parent.Generation
	}
	if wanted < first || wanted > last {
		has := fmt.Sprintf("generation %d alone", first)
		if last > first {
			has = fmt.Sprintf("generations %d to %d", first, last)
		}
		return nil, fmt.Errorf("parent_generation is %d, and parent %s has %s", wanted, visible.Quoted(parent.ID), has)
	}
	r := &p.Results[wanted-first]
	if r.Err != "" {
		return nil, fmt.Errorf("generation %d of parent %s has an error, and there is nothing to go on from", wanted,
			visible.Quoted(parent.ID))
	}
	completion := r.TokenIDs
	if parent.Length != nil {
		completion = completion[:min(len(completion), *parent.Length)]
	}
	return slices.Concat(p.Prompt, completion), nil
}

// stripped is the parent without what later rows do not need.
func (p *Parent) stripped() *Parent {
	s := &Parent{Prompt: p.Prompt, Results: slices.Clone(p.Results)}
	for i := range s.Results {
		s.Results[i].Text, s.Results[i].Logprobs, s.Results[i].Conversation = "", nil, completion.Conversation{}
	}
	return s
}

// errParentBytes reports that bytes are no parent.
var errParentBytes = errors.New("these bytes hold no row that others go on from")

// maxResult bounds what is made room for on the word of a file.
const maxResult = 1 << 30

// appendParent appends the binary form: the tokens of the prompt, then the results, each after its length.
func appendParent(b []byte, p *Parent) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.Prompt)))
	for _, id := range p.Prompt {
		b = binary.AppendUvarint(b, uint64(id))
	}
	b = binary.AppendUvarint(b, uint64(len(p.Results)))
	var one []byte
	for i := range p.Results {
		one, _ = p.Results[i].AppendBinary(one[:0])
		b = append(binary.AppendUvarint(b, uint64(len(one))), one...)
	}
	return b
}

// parseParent reads what appendParent wrote.
func parseParent(b []byte) (*Parent, error) {
	p, ok := &Parent{}, true
	number := func(most uint64) uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > most {
			ok, b = false, nil
			return 0
		}
		b = b[size:]
		return n
	}
	p.Prompt = make([]int32, number(uint64(len(b))))
	for i := range p.Prompt {
		p.Prompt[i] = int32(number(1<<31 - 1))
	}
	for range number(uint64(len(b))) {
		n := number(maxResult)
		if n > uint64(len(b)) {
			return nil, errParentBytes
		}
		var r completion.Result
		if r.UnmarshalBinary(b[:n]) != nil {
			return nil, errParentBytes
		}
		p.Results, b = append(p.Results, r), b[n:]
	}
	if !ok || len(b) > 0 || len(p.Results) == 0 {
		return nil, errParentBytes
	}
	return p, nil
}
