package load

import (
	"context"
	"errors"
	"fmt"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/models"
	"github.com/quire/quire/text/tokenizer"
)

// openDraftModel opens the model that drafts tokens for a model with a tokenizer, which may be nil. It is nil if
// there is none.
func openDraftModel(ctx context.Context, p *process.Process, j *spec.Job, model *models.Checkpoint,
	tok *tokenizer.Tokenizer) (
	*models.Checkpoint, error) {
	name := j.Engine.DraftModel
	if name == "" {
		return nil, nil
	}
	draft, err := openWhole(ctx, p, j, name)
	if err != nil {
		return nil, setting.Errorf("`draft-model`: %w", err)
	}
	draftTok, err := openTokenizer(draft)
	if err == nil {
		err = sameTokens(model, draft, tok, draftTok)
	}
	if err != nil {
		err = setting.Errorf("`draft-model` %s: %w", storage.Redact(name), err)
		return nil, errors.Join(err, draft.Close())
	}
	return draft, nil
}

// sameTokens refuses a draft model whose tokens differ from the model's. Embeddings may have room for more tokens than
// a tokenizer has.
func sameTokens(model, draft *models.Checkpoint, tok, draftTok *tokenizer.Tokenizer) error {
	const remedy = "a draft model must have the model's tokens: use another one"
	switch {
	case (tok == nil) != (draftTok == nil):
		return errors.New("one of the model and the draft model has a tokenizer, and the other has none; " + remedy)
	case tok == nil:
		if a, b := model.Config.VocabSize, draft.Config.VocabSize; a != b {
			return fmt.Errorf("the model has %d tokens, the draft model %d; %s", a, b, remedy)
		}
		return nil
	case tok.VocabSize() != draftTok.VocabSize():
		return fmt.Errorf("the model's tokenizer has %d tokens, that of the draft model %d; %s", tok.VocabSize(),
			draftTok.VocabSize(), remedy)
	}
	for id := range int32(tok.VocabSize()) {
		if a, b := tok.Token(id), draftTok.Token(id); a != b {
			return fmt.Errorf("token %d is %q for the model and %q for the draft model; %s", id, a, b, remedy)
		}
	}
	return nil
}
