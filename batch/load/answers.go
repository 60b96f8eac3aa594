package load

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/sentence"
	"github.com/quire/quire/text/tokenizer"
)

// answer has a decoder without a head score pairs, in a job that needs scores: by the tokens of its files, or by yes
// and no.
func answer(j *spec.Job, model *models.Checkpoint) error {
	if j.Task != completion.Rerank || model.Config.Classifier != nil || model.Config.Generates() != nil {
		return nil
	}
	answers := model.Sentence.Answers
	if answers == nil {
		tok, err := openTokenizer(model)
		if err != nil {
			return err
		}
		ids := [2]int{}
		for i, name := range []string{"yes", "no"} {
			id, ok := int32(0), false
			if tok != nil {
				id, ok = tok.ID(name)
			}
			if !ok {
				return outcome.Errorf(outcome.Misused, "`task` is rerank, the model %s has no head, and its tokenizer "+
					"no token %q: give a model whose class ends in %s", j.Model, name, arch.ClassificationSuffix)
			}
			ids[i] = int(id)
		}
		answers = &sentence.Answers{Yes: ids[0], No: ids[1]}
	}
	return models.Answer(model, *answers)
}

// askingYesOrNo is the published template of Qwen3-Reranker. The system's message is the instruction.
const askingYesOrNo = `{%- set asked = namespace(task="Given a web search query, retrieve relevant passages that ` +
	`answer the query", query="", document="") %}{%- for m in messages %}{%- if m.role == "system" %}` +
	`{%- set asked.task = m.content %}{%- elif m.role == "query" %}{%- set asked.query = m.content %}` +
	`{%- elif m.role == "document" %}{%- set asked.document = m.content %}{%- endif %}{%- endfor %}` +
	`{{- "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct ` +
	`provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: " ` +
	`+ asked.task + "\n<Query>: " + asked.query + "\n<Document>: " + asked.document + ` +
	`"<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n" }}`

// openAnswers sets how pairs become the tokens after which a decoder answers: by the chat template, if it writes
// messages of the roles query and document, or as published for the model.
func openAnswers(s *process.Session, j *spec.Job, model *models.Checkpoint, tok *tokenizer.Tokenizer) error {
	set := j.Sampling
	if a := model.Sentence.Answers; a != nil {
		set.AddGenerationPrompt = set.AddGenerationPrompt || a.Opens
	}
	instruction := j.System
	if instruction == "" {
		instruction = model.Sentence.Prompts[model.Sentence.DefaultPrompt]
	}
	pair := func(query, document string) (string, error) {
		messages := []promptset.Message{{Role: "query", Content: query}, {Role: "document", Content: document}}
		if instruction != "" {
			messages = append([]promptset.Message{{Role: "system", Content: instruction}}, messages...)
		}
		if s.Render == nil {
			return "", s.NoTemplate
		}
		return s.Render(messages, &set)
	}
	if err := carriesPairs(pair); err != nil {
		if model.Config.ModelType != "qwen3" || j.ChatTemplate != spec.TemplateOfModel {
			return outcome.Errorf(outcome.Misused, "`task` is rerank, the model %s has no head, and the chat template "+
				"can not ask about a pair: %w; give `chat-template` FILE with a template that writes messages of the "+
				"roles query and document", j.Model, err)
		}
		if err := openTemplates(s, j, tok, askingYesOrNo, askingYesOrNo); err != nil {
			return err
		}
	}
	end, err := pairEnd(pair)
	if err != nil {
		return err
	}
	ends, err := tok.Encode(end, false)
	if err != nil {
		return err
	}
	s.EncodePair = func(query, document string, most int) (tokens []int32, second int, truncated bool, err error) {
		text, err := pair(query, document)
		if err == nil {
			tokens, err = tok.Encode(text, false)
		}
		if err != nil || most == 0 || len(tokens) <= most {
			return tokens, 0, false, err
		}
		if len(ends) >= most {
			return nil, 0, false, fmt.Errorf("%d tokens are too few for a pair: the end of the template has %d", most,
				len(ends))
		}
		return slices.Concat(tokens[:most-len(ends)], ends), 0, true, nil
	}
	return nil
}

// carriesPairs returns why a template does not write the texts of a pair.
func carriesPairs(pair func(query, document string) (string, error)) error {
	base, err := pair("a", "b")
	if err != nil {
		return err
	}
	for _, other := range [][3]string{{"query", "c", "b"}, {"document", "a", "c"}} {
		if text, err := pair(other[1], other[2]); err != nil {
			return err
		} else if text == base {
			return fmt.Errorf("it leaves out messages of the role %s", other[0])
		}
	}
	return nil
}

// pairEnd returns what a template writes after the document.
func pairEnd(pair func(query, document string) (string, error)) (string, error) {
	one, err := pair("a", "b")
	if err != nil {
		return "", err
	}
	other, err := pair("a", "c")
	n := 0
	for n < len(one) && strings.HasSuffix(other, one[len(one)-n-1:]) {
		n++
	}
	return one[len(one)-n:], err
}
