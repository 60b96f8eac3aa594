package parameter

import "iter"

// toContinue is the remedy for members that ask for continuation.
const toContinue = "give continue_final_message"

// members are members of a message that ask for something Quire does not do. Chat templates get all others.
var members = []Parameter{
	{Name: "audio", From: OpenAI},
	{Name: "audios", From: Transformers},
	{Name: "image", From: Transformers},
	{Name: "images", From: Transformers},
	{Name: "video", From: Transformers},
	{Name: "videos", From: Transformers},

	{Name: "prefix", neutral: isFalse, Note: toContinue},
	{Name: "partial", neutral: isFalse, Note: toContinue},
}

var memberByName = func() map[string]*Parameter {
	all := map[string]*Parameter{}
	for i := range members {
		all[members[i].Name] = &members[i]
	}
	return all
}()

// LookupMember returns the table's entry for a member of a message: nil if chat templates get it.
func LookupMember(name string) *Parameter { return memberByName[name] }

// Members iterates over the members of messages that are judged.
func Members() iter.Seq[*Parameter] {
	return func(yield func(*Parameter) bool) {
		for i := range members {
			if !yield(&members[i]) {
				return
			}
		}
	}
}
