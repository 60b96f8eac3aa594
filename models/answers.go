package models

import (
	"fmt"
	"slices"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/sentence"
)

// ScoreAnswers makes a decoder score texts by how much likelier one token is than another after a text: the model gets
// a head of these rows of its output matrix.
func ScoreAnswers(c *Checkpoint, a sentence.Answers) error {
	config := &c.Config
	if err := config.Generates(); err != nil {
		return err
	}
	if d := config.LogitDivisor; config.LogitCap != 0 || d != 0 && d != 1 {
		return arch.Unsupported("logits that are neither divided nor capped are", "a %s that scores answers",
			config.Architecture)
	}
	name := arch.NameHead
	if config.TieEmbeddings {
		name = arch.NameEmbedding
	}
	words, rows := c.tensors[name], []int{a.Yes, a.No}
	if a.No < 0 {
		rows = rows[:1]
	}
	switch {
	case words == nil:
		return fmt.Errorf("%w: %s", ErrNoTensor, name)
	case slices.Min(rows) < 0 || slices.Max(rows) >= words.shape[0]:
		return fmt.Errorf("the answers are the tokens %v, and the vocabulary has 0 to %d", rows, words.shape[0]-1)
	}
	arch.AnswerBy(config, len(rows), a.Function)
	c.Sentence.Pooling = sentence.Last
	head := words.picked([]int{len(rows), config.HiddenSize}, func(row int) int { return rows[row] })
	head.unpack, head.format = nil, blocks.Format{}
	c.tensors[arch.NameDense(0)+".weight"] = head
	c.finish()
	return nil
}
