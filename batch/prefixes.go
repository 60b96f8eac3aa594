package batch

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/quire/quire/engine"
)

// defaultHostMemory is what SavePrefix and LoadPrefix take where Engine.HostKVMemory is 0.
const defaultHostMemory = 4 << 30

// loadPrefix reads the file of LoadPrefix, once for each engine.
func (o *Task) loadPrefix(engines ...*engine.Engine) error {
	if o.LoadPrefix == "" {
		return nil
	}
	for _, e := range engines {
		if err := loadPrefix(e, o.LoadPrefix); err != nil {
			return err
		}
	}
	return nil
}

func loadPrefix(e *engine.Engine, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("--load-prefix: %w", err)
	}
	defer f.Close()
	if _, err := e.LoadPrefix(f); err != nil {
		return fmt.Errorf("--load-prefix %s: %w", file, err)
	}
	return nil
}

// savePrefix writes the file of SavePrefix. It appears only whole.
func (o *Task) savePrefix(ctx context.Context, s *Session, tokens []int32) (err error) {
	if o.SavePrefix == "" {
		return nil
	}
	engines := s.engines()
	if len(engines) == 0 {
		return errors.New("--save-prefix: this engine keeps no keys and values")
	}
	temporary := o.SavePrefix + ".part"
	f, err := os.Create(temporary)
	if err != nil {
		return fmt.Errorf("--save-prefix: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary)
			err = fmt.Errorf("--save-prefix %s: %w", o.SavePrefix, err)
		}
	}()
	_, err = engines[0].SavePrefix(ctx, tokens, f)
	if serr := f.Sync(); err == nil {
		err = serr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary, o.SavePrefix)
}

// commonPrefix is the tokens that all prompts seen so far begin with.
type commonPrefix struct {
	tokens []int32
	seen   bool
}

func (c *commonPrefix) add(prompt []int32) {
	if !c.seen {
		c.tokens, c.seen = prompt, true
		return
	}
	n := 0
	for n < min(len(c.tokens), len(prompt)) && c.tokens[n] == prompt[n] {
		n++
	}
	c.tokens = c.tokens[:n]
}
