package completion

import "encoding/binary"

// Conversation is what a completion that may call tools has in addition: its text is the text of its last turn, and its
// tokens are those of all turns and of what came between them.
type Conversation struct {
	Turns    int     // turns of the model; 0 in other jobs
	Messages string  // the whole conversation, as a JSON list in the form of OpenAI's API
	Mask     []int32 // for each of TokenIDs 1 if the model generated it, 0 if it came from tools
}

// Inserted counts the tokens that the model did not generate.
func (c *Conversation) Inserted() (n int) {
	for _, generated := range c.Mask {
		if generated == 0 {
			n++
		}
	}
	return n
}

// conversationColumns are the columns of a job whose completions may call tools.
var conversationColumns = []Column{
	{Name: "messages", Doc: "the whole conversation as a JSON list in the form of OpenAI's API: the row's messages, " +
		"each turn of the model, and the results of its calls; null if there is none", OnRequest: true,
		ByJob: "calls tools", form: textForm, pointer: func(o *Row) any { return &o.Messages }, varied: true,
		null: func(o *Row) bool { return o.Messages == "" }},
	{Name: "turns", Doc: "number of turns of the model; null if there is none", OnRequest: true, ByJob: "calls tools",
		form: integerForm, pointer: func(o *Row) any { return &o.Turns }, null: func(o *Row) bool { return o.Turns == 0 }},
	{Name: "completion_mask", Doc: "for each of token_ids 1 if the model generated it, and 0 if it stands between two " +
		"turns, where logprobs are 0; null if there is none", OnRequest: true, ByJob: "calls tools",
		form: integersForm, pointer: func(o *Row) any { return &o.Mask },
		null: func(o *Row) bool { return o.Mask == nil }},
}

// ConversationColumns returns the names of the columns of a job whose completions may call tools.
func ConversationColumns() []string { return namesIn(conversationColumns) }

// Extras of conversations.
var (
	messagesExtra = textExtra(30, func(r *Result) *string { return &r.Messages })
	maskExtra     = listExtra(31, func(r *Result) *[]int32 { return &r.Mask }, idItem)
	turnsExtra    = extra{tag: 32, has: func(r *Result) bool { return r.Turns != 0 },
		append: func(b []byte, r *Result) []byte { return binary.AppendVarint(b, int64(r.Turns)) },
		read: func(d *resultDecoder, r *Result) {
			if r.Turns = d.integer(); r.Turns == 0 { // has no such extra
				d.fail()
			}
		}}
)
