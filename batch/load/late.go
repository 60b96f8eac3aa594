package load

import (
	"cmp"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/text/tokenizer"
)

// openLate sets how texts become the tokens that have vectors, in a job of late interaction.
func openLate(s *process.Session, j *spec.Job, model *models.Checkpoint, tok *tokenizer.Tokenizer) error {
	side := j.Side
	late := &ask.Late{Marker: -1, Most: side.MaxTokens, Filled: side.Filled, Seen: side.Attended,
		Skipped: map[int32]bool{}}
	var known bool
	if side.Marker != "" {
		if late.Marker, known = tok.ID(side.Marker); !known {
			return outcome.Errorf(outcome.Misused, "the model's files mark texts with %q, which is no token of its "+
				"tokenizer", side.Marker)
		}
	}
	if side.Filled > 0 {
		special := tok.SpecialTexts()
		filler := cmp.Or(side.Filler, special["mask_token"], special["eos_token"])
		if late.Filler, known = tok.ID(filler); !known {
			return outcome.Errorf(outcome.Misused, "the model's files fill queries up to %d tokens, and its tokenizer "+
				"has no mask", side.Filled)
		}
	}
	if err := seesQueries(&model.Config, late); err != nil {
		return err
	}
	for _, word := range side.Skipped { // as in sentence-transformers, others have no token to skip
		if id, known := tok.ID(word); known {
			late.Skipped[id] = true
		}
	}
	s.Late = late
	return nil
}

// seesQueries refuses layers in which a token that follows a query could see nothing of it.
func seesQueries(c *models.Config, late *ask.Late) error {
	for i, l := range c.Layers {
		if l.Window > 0 && late.Filled > l.Window && !late.Seen {
			return arch.Unsupported("", "layer %d of a %s, which attends to %d tokens, for queries that are filled up "+
				"to %d tokens", i, c.Architecture, l.Window, late.Filled)
		}
	}
	return nil
}
