package ask

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
)

// What a row continues is the parent's prompt, what is wanted of a completion, and its own prompt in the form that
// it has there: text without what begins one, turns without what begins a conversation.
func TestPromptBehindParent(t *testing.T) {
	b := New(Settings{})
	b.Text = &Text{Vocab: 300, EOS: []int32{9},
		Encode: func(text string, special bool) (ids []int32, err error) {
			if special {
				ids = append(ids, 256)
			}
			for _, c := range []byte(text) {
				ids = append(ids, int32(c))
			}
			return ids, nil
		},
		Render: func(messages []promptset.Message, _ *parameter.Set) (string, error) {
			text := "BEGIN"
			for _, m := range messages {
				text += fmt.Sprintf("<%s>%s\t", m.Role, m.Content) // a tab, 9, ends a turn
			}
			return text + "<a>", nil
		}}
	parent := &lineage.Parent{Prompt: []int32{256, 65}, Results: []completion.Result{
		{Generation: 3, TokenIDs: []int32{66, 67}}, {Generation: 4, TokenIDs: []int32{68, 9}},
		{Generation: 5, Err: "not a number"}}}
	number := func(n int) *int { return &n }
	for _, c := range []struct {
		row  promptset.Row
		want string
	}{
		{promptset.Row{Kind: promptset.KindText, Prompt: "x"}, "[256 65 66 67 120]"},
		{promptset.Row{}, "[256 65 66 67]"},
		{promptset.Row{Kind: promptset.KindTokens, TokenIDs: []int32{7}, Parent: promptset.Parent{Length: number(1)}},
			"[256 65 66 7]"},
		{promptset.Row{Parent: promptset.Parent{Length: number(0)}}, "[256 65]"},
		{promptset.Row{Parent: promptset.Parent{Length: number(50)}}, "[256 65 66 67]"},
		// An answer that was cut is closed as the template does, one that ends with the same token is not closed twice.
		{promptset.Row{Kind: promptset.KindMessages, Messages: []promptset.Message{{Role: "u", Content: "?"}}},
			"[256 65 66 67 9 60 117 62 63 9 60 97 62]"},
		{promptset.Row{Kind: promptset.KindMessages, Messages: []promptset.Message{{Role: "u", Content: "?"}},
			Parent: promptset.Parent{Generation: number(4)}}, "[256 65 68 9 60 117 62 63 9 60 97 62]"},
		{promptset.Row{Parent: promptset.Parent{Generation: number(5)}}, "generation 5 of parent \"p\" has an error"},
		{promptset.Row{Parent: promptset.Parent{Generation: number(2)}}, "has generations 3 to 5"},
	} {
		c.row.Parent.ID = "p"
		got, err := b.Prompt(&c.row, parent)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if text != c.want && (err == nil || !strings.Contains(text, c.want)) {
			t.Errorf("%+v: %v %v; want %s", c.row, got, err, c.want)
		}
	}
	failed := &lineage.Parent{Results: []completion.Result{{Err: "bad"}}}
	child := &promptset.Row{Parent: promptset.Parent{ID: "p", Generation: number(1)}}
	if _, err := b.Prompt(child, failed); err == nil || !strings.Contains(err.Error(), `parent "p" has an error`) {
		t.Error(err)
	}
}
