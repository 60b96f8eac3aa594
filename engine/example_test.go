package engine_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/setup"
	"github.com/quire/quire/xla"
)

// Two completions of one prompt from a checkpoint in the Hugging Face format.
func Example() {
	ctx := context.Background()
	backend, err := xla.Open("xla:cpu", xla.OpenOptions{FindPlugin: setup.FindPlugin})
	if err != nil {
		log.Fatal(err)
	}
	model, err := models.Open(testenv.Path("testdata", "models", "llama3"))
	if err != nil {
		log.Fatal(err)
	}
	e, err := engine.New(ctx, engine.Config{Model: model, Backend: backend, MaxSeqs: 4, KVMemory: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()

	request := &engine.Request{ID: "greeting", Tokens: []int32{14, 88, 220, 43, 125, 151, 24}, N: 2, MaxTokens: 5,
		Sampling: sampling.Settings{Temperature: 0, TopP: 1}}
	for completion, err := range e.Run(ctx, slices.Values([]*engine.Request{request})) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(completion.Tokens, completion.FinishReason)
	}
	// Output:
	// [153 182 182 221 221] length
	// [153 182 182 221 221] length
}
