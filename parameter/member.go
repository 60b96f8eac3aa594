package parameter

import "iter"

// Remedies for members of messages.
const (
	intoContent = "put it into content"
	asPrompt    = "give the rendered text as prompt"
)

// members are what a message may have beside role and content, in the APIs and in chat templates, and what Quire's
// templates do not get. Note is what to do in place of giving the member.
var members = []Parameter{
	{Name: "name", From: all, Note: intoContent},

	{Name: "tool_calls", From: all, Note: asPrompt},
	{Name: "tool_call_id", From: all, Note: asPrompt},
	{Name: "tool_name", From: LlamaCpp, Note: asPrompt},
	{Name: "tool_plan", From: Transformers, Note: asPrompt},
	{Name: "tool_results", From: Transformers, Note: asPrompt},
	{Name: "tool_responses", From: Transformers, Note: asPrompt},
	{Name: "function_call", From: OpenAI, Note: asPrompt},
	{Name: "tools", From: VLLM | Transformers, Note: asPrompt},
	{Name: "functions", From: Transformers, Note: asPrompt},
	{Name: "documents", From: Transformers, Note: intoContent},

	{Name: "reasoning", From: VLLM, Note: intoContent},
	{Name: "reasoning_content", From: VLLM | LlamaCpp | Transformers, Note: intoContent},
	{Name: "reasoning_details", Note: intoContent},
	{Name: "thinking", From: Transformers, Note: intoContent},
	{Name: "thinking_blocks", Note: intoContent},
	{Name: "refusal", From: OpenAI, Note: intoContent},
	{Name: "annotations", From: OpenAI, Note: intoContent},

	{Name: "audio", From: OpenAI},
	{Name: "audios", From: Transformers},
	{Name: "image", From: Transformers},
	{Name: "images", From: Transformers},
	{Name: "video", From: Transformers},
	{Name: "videos", From: Transformers},

	{Name: "prefix", neutral: isFalse, Note: asPrompt},
	{Name: "partial", neutral: isFalse, Note: asPrompt},
}

var memberByName = func() map[string]*Parameter {
	all := map[string]*Parameter{}
	for i := range members {
		all[members[i].Name] = &members[i]
	}
	return all
}()

// LookupMember returns what the table has of a member of a message: nil for role and content, and for a member of the
// user's own, which no template gets.
func LookupMember(name string) *Parameter { return memberByName[name] }

// Members gives the members of messages that are judged.
func Members() iter.Seq[*Parameter] {
	return func(yield func(*Parameter) bool) {
		for i := range members {
			if !yield(&members[i]) {
				return
			}
		}
	}
}
