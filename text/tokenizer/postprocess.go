package tokenizer

import (
	"encoding/json"
	"fmt"

	"github.com/quire/quire/text/tokenizer/pretoken"
)

// frame holds the special tokens put around an encoded text, and around a pair of texts.
type frame struct {
	before, after []int32
	pair          pairFrame
	trim          trim
}

// trim is how a post-processor changes which characters a token of bytes stands for: characters of spaces are left out,
// but for a space that the pre-tokenizer added.
type trim struct{ spaces, added bool }

type postJSON struct {
	Type       string                       `json:"type"`
	Processors []json.RawMessage            `json:"processors"`
	Single     []map[string]json.RawMessage `json:"single"`
	Pair       []map[string]json.RawMessage `json:"pair"`
	CLS        [2]json.RawMessage           `json:"cls"`
	SEP        [2]json.RawMessage           `json:"sep"`
	Trims      *bool                        `json:"trim_offsets"`
	Adds       *bool                        `json:"add_prefix_space"`
	Specials   map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
}

func parsePostProcessor(raw json.RawMessage, depth int) (frame, error) {
	var f frame
	if pretoken.IsNull(raw) {
		return f, nil
	}
	if depth > pretoken.MaxNesting {
		return f, pretoken.ErrNesting
	}
	var p postJSON
	if err := json.Unmarshal(raw, &p); err != nil {
		return f, fmt.Errorf("post_processor: %w", err)
	}
	isSet := func(flag *bool) bool { return flag == nil || *flag }
	switch p.Type {
	case "ByteLevel":
		f.trim = trim{isSet(p.Trims), isSet(p.Adds)}
		return f, nil
	case "Sequence":
		for _, child := range p.Processors {
			outer, err := parsePostProcessor(child, depth+1)
			if err != nil {
				return f, err
			}
			f.before = append(outer.before, f.before...)
			f.after = append(f.after, outer.after...)
			f.pair = f.pair.within(outer.pair)
			if outer.trim.spaces {
				f.trim = outer.trim
			}
		}
		return f, nil
	case "TemplateProcessing":
		f, err := p.template()
		f.pair = p.pairTemplate()
		return f, err
	case "BertProcessing", "RobertaProcessing":
		var before, after int32
		if json.Unmarshal(p.CLS[1], &before) != nil || json.Unmarshal(p.SEP[1], &after) != nil {
			return f, fmt.Errorf("post_processor %s: cls and sep are not a token and its id", p.Type)
		}
		f = frame{before: []int32{before}, after: []int32{after}, pair: pairFrame{before: []int32{before},
			between: []int32{after}, after: []int32{after}, kept: 1}}
		if p.Type == "RobertaProcessing" {
			f.trim = trim{isSet(p.Trims), isSet(p.Adds)}
			f.pair.between, f.pair.kept = []int32{after, after}, oneKind
		}
		return f, nil
	}
	return f, fmt.Errorf("post_processor %q is not supported (supported: Sequence, ByteLevel, TemplateProcessing, "+
		"BertProcessing, RobertaProcessing)", p.Type)
}

func (p *postJSON) template() (f frame, err error) {
	seen := false
	for _, item := range p.Single {
		if _, ok := item["Sequence"]; ok {
			if seen {
				return f, fmt.Errorf("post_processor TemplateProcessing repeats the text, which is not supported")
			}
			seen = true
			continue
		}
		var special struct {
			Name string `json:"id"`
		}
		if err := json.Unmarshal(item["SpecialToken"], &special); err != nil {
			return f, fmt.Errorf("post_processor TemplateProcessing: an item is neither Sequence nor SpecialToken")
		}
		tokens, ok := p.Specials[special.Name]
		if !ok {
			return f, fmt.Errorf("post_processor TemplateProcessing: special token %q has no ids", special.Name)
		}
		if seen {
			f.after = append(f.after, tokens.IDs...)
		} else {
			f.before = append(f.before, tokens.IDs...)
		}
	}
	if !seen {
		return f, fmt.Errorf("post_processor TemplateProcessing leaves the text out")
	}
	return f, nil
}
