package tokenizer_test

import (
	"fmt"

	"github.com/quire/quire/text/tokenizer"
)

func Example() {
	t, err := tokenizer.Open("testdata/smollm")
	if err != nil {
		fmt.Println(err)
		return
	}
	ids, err := t.Encode("<|im_start|>Hello 世界", true)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Decode(ids, false))
	s := t.NewStream() // leaves special tokens out, never splits a character
	for _, id := range ids {
		fmt.Print(s.Push(id))
	}
	fmt.Println(s.Flush())
	// Output:
	// <|im_start|>Hello 世界
	// Hello 世界
}
