package chat_test

import (
	"fmt"

	"github.com/quire/quire/text/chat"
)

func Example() {
	t,
		err := chat.Parse(
		"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if " +
			"add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := t.Render([]chat.Message{{Role: "user", Content: "Hello"}}, chat.Options{AddGenerationPrompt: true})
	fmt.Print(text, err)
	// Output:
	// <|im_start|>user
	// Hello<|im_end|>
	// <|im_start|>assistant
	// <nil>
}
