package engine_test

import (
	"context"
	"fmt"
	"log"
	"path/filepath"
	"slices"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/sampling"
)

// Two completions of one prompt from a checkpoint in the Hugging Face format.
func Example() {
	ctx := context.Background()
	cache, err := setup.CacheDir() // where compiled programs are kept for the next time
	if err != nil {
		log.Fatal(err)
	}
	backend, err := xla.Open("xla:cpu", xla.OpenOptions{FindPlugin: setup.FindPlugin,
		CacheDir: filepath.Join(cache, "test-executables")})
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

// A context is read once; what may follow is scored, and drawn from a fork.
func ExampleContext() {
	ctx := context.Background()
	cache, err := setup.CacheDir() // where compiled programs are kept for the next time
	if err != nil {
		log.Fatal(err)
	}
	backend, err := xla.Open("xla:cpu", xla.OpenOptions{FindPlugin: setup.FindPlugin,
		CacheDir: filepath.Join(cache, "test-executables")})
	if err != nil {
		log.Fatal(err)
	}
	model, err := models.Open(testenv.Path("testdata", "models", "llama3"))
	if err != nil {
		log.Fatal(err)
	}
	e, err := engine.New(ctx, engine.Config{Model: model, Backend: backend, MaxSeqs: 4, KVMemory: 1 << 20, Contexts: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()

	root, err := e.Contexts().Open()
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	if err := root.Append(14, 88, 220, 43, 125, 151, 24); err != nil {
		log.Fatal(err)
	}
	branch, err := root.Fork(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer branch.Close()
	for range 2 {
		greedy := &engine.Request{N: 1, MaxTokens: 2, Sampling: sampling.Settings{TopP: 1}}
		completions, err := branch.Generate(ctx, greedy)
		if err != nil {
			log.Fatal(err)
		}
		next := completions[0].Tokens
		logprobs, err := branch.Score(ctx, next)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v %.1f\n", next, logprobs)
		if err := branch.Append(next...); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(root.Len(), branch.Len())
	fmt.Printf("%+v\n", branch.Counts())
	// Output:
	// [153 182] [-3.0 -1.8]
	// [182 221] [-1.8 -2.2]
	// 7 11
	// {Committed:0 Working:1 Reserved:0 Shared:0 WorkingTokens:9 Waiting:2}
}
