// Command prompts makes the demo's prompt set: it converts testdata/prompts/demo.jsonl, which people edit, to
// demo.parquet next to it. Run it from the root of the repository: go run ./scripts/prompts
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

const (
	source = "testdata/prompts/demo.jsonl"
	target = "testdata/prompts/demo.parquet"
)

type message struct {
	Role    string `json:"role" parquet:"role"`
	Content string `json:"content" parquet:"content"`
}

type prompt struct {
	ID          string    `json:"id" parquet:"id"`
	Topic       string    `json:"topic" parquet:"topic,dict"`
	Messages    []message `json:"messages" parquet:"messages,list"`
	MaxTokens   *int32    `json:"max_tokens" parquet:"max_tokens,optional"`
	Temperature *float64  `json:"temperature" parquet:"temperature,optional"`
	N           *int32    `json:"n" parquet:"n,optional"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "prompts:", err)
		os.Exit(1)
	}
}

func run() error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	var prompts []prompt
	ids := map[string]bool{}
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	for {
		var p prompt
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("%s row %d: %w", source, len(prompts), err)
		}
		if p.ID == "" || p.Topic == "" || len(p.Messages) == 0 || ids[p.ID] {
			return fmt.Errorf("%s row %d: give it an id of its own, a topic and messages", source, len(prompts))
		}
		ids[p.ID] = true
		prompts = append(prompts, p)
	}
	if err := parquet.WriteFile(target, prompts, parquet.Compression(&parquet.Zstd),
		parquet.CreatedBy("quire", "1", "prompts")); err != nil {
		return err
	}
	fmt.Printf("%d prompts in %s\n", len(prompts), target)
	return nil
}
