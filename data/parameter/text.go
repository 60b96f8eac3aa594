package parameter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Text are the parameters of how messages become a prompt, and tokens become text.
type Text struct {
	// Tools and Documents are for the chat template to present to the model; ChatTemplateKwargs are further variables
	// of the template.
	Tools, Documents   ListJSON
	ChatTemplateKwargs ObjectJSON
	// ReasoningEffort is the template's variable of that name, and overrides one in ChatTemplateKwargs; "" is none.
	ReasoningEffort string
	// ToolChoice is "auto"; "none": the template gets no tools, and calls in the completion are not parsed;
	// "required": the completion is calls; or a JSON object in OpenAI's form that names the function to call.
	ToolChoice string
	// ParallelToolCalls allows several calls in a completion, unless the tool to call is named.
	ParallelToolCalls bool
	// AddGenerationPrompt ends the prompt with the opening of the answer. With ContinueFinalMessage, the prompt ends
	// with the text of the last message instead.
	AddGenerationPrompt, ContinueFinalMessage bool
	// TruncatePromptTokens keeps the last tokens of a prompt: so many, or for -1 as many as leave room for
	// max_tokens. 0 keeps all.
	TruncatePromptTokens int
	// SkipSpecialTokens omits special tokens from the text. With IncludeStopStrInOutput, the text includes the stop
	// string or the token that ended the completion.
	SkipSpecialTokens, IncludeStopStrInOutput bool
	// MaxThinkingTokens bounds the tokens of reasoning: after so many, the text that ends reasoning is generated. -1
	// means no bound.
	MaxThinkingTokens int
}

// OfPrompt reports whether one of Quire's own parameters is about how a row becomes the tokens of a prompt. Jobs that
// generate nothing have these parameters and no others.
func (p *Parameter) OfPrompt() bool {
	return slices.Contains([]string{"tools", "documents", "chat_template_kwargs", "reasoning_effort",
		"add_generation_prompt", "continue_final_message", "truncate_prompt_tokens"}, p.Name)
}

// ObjectJSON and ListJSON are values as compact JSON; "" is none.
type (
	ObjectJSON string
	ListJSON   string
)

// oneOf returns what a word must be, "" if it is valid.
func oneOf(word string, words ...string) string {
	if slices.Contains(words, word) {
		return ""
	}
	return strings.Join(words, " or ")
}

// WantsCall reports whether the completion must call a tool, and returns the tool; "" is any.
func (t *Text) WantsCall() (tool string, wanted bool) {
	if t.ToolChoice == "required" {
		return "", true
	}
	var choice struct {
		Type     string
		Function struct{ Name string }
	}
	if json.Unmarshal([]byte(t.ToolChoice), &choice) != nil || choice.Type != "function" {
		return "", false
	}
	return choice.Function.Name, choice.Function.Name != ""
}

// allowedChoice returns what ToolChoice must be, "" if it is valid.
func (t *Text) allowedChoice() string {
	if _, wanted := t.WantsCall(); wanted || t.ToolChoice == "auto" || t.ToolChoice == "none" {
		return ""
	}
	return `auto, none, required, or {"type": "function", "function": {"name": ...}}`
}

// wellFormed returns an error for values that no parameter of the type may have.
func wellFormed(v any) error {
	switch v := v.(type) {
	case []string:
		for _, text := range v {
			if text == "" || !utf8.ValidString(text) {
				return fmt.Errorf("%q is empty or not UTF-8", text)
			}
		}
	case ObjectJSON:
		return isJSON(string(v), '{', Object)
	case ListJSON:
		return isJSON(string(v), '[', List)
	}
	return nil
}

func isJSON(text string, first byte, t Type) error {
	if text == "" || text[0] == first && utf8.ValidString(text) && json.Valid([]byte(text)) {
		return nil
	}
	return fmt.Errorf("must be %v", t)
}

// ParseJSON returns a JSON value in the compact form of [ObjectJSON] and [ListJSON]. Text stands for the JSON that it
// contains, and an empty value for none.
func ParseJSON(raw []byte) string {
	var inner string
	if json.Unmarshal(raw, &inner) == nil {
		raw = []byte(inner)
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return strings.TrimSpace(string(raw)) // whatever it is, the error is reported when it is checked
	}
	if text := b.String(); text != "{}" && text != "[]" && text != "null" {
		return text
	}
	return ""
}
