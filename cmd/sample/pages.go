package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/quire/quire/engine"
)

// pageOptions are the flags for what becomes of pages of keys and values: docs/pages.md.
type pageOptions struct {
	prefixCache, admission, hostMemory string
	savePrefix, loadPrefix             string

	hostBytes int64 // parsed by check
}

// defaultHostMemory is what --save-prefix and --load-prefix take where --host-kv-memory does not say.
const defaultHostMemory = 4 << 30

func (o *pageOptions) define(s *pflag.FlagSet) {
	s.StringVar(&o.prefixCache, "prefix-cache", "on",
		"`HOW` prompts share the pages of a prefix that they have in common: on, or off; what is drawn is the same")
	s.StringVar(&o.admission, "admission", string(engine.Overcommit),
		"`HOW` pages are promised: overcommit, for a sequence's prompt, and when pages run out sequences move to the "+
			"host's memory and back; or reserve, for the longest that a sequence may become")
	s.StringVar(&o.hostMemory, "host-kv-memory", "",
		"`BYTES` the host's memory for prefixes that had to leave the device, such as 4GB (default: none)")
	placeVar(s, &o.savePrefix, onThisMachine, "save-prefix", "",
		"`FILE` write the keys and values of the prefix that all prompts of this run have in common here, when it is "+
			"through")
	placeVar(s, &o.loadPrefix, onThisMachine, "load-prefix", "",
		"`FILE` take the prefix from this file, where a prompt begins with it")
}

func (o *pageOptions) check() error {
	if o.prefixCache != "on" && o.prefixCache != "off" {
		return fmt.Errorf("--prefix-cache is %q, but must be on or off", o.prefixCache)
	}
	if a := engine.Admission(o.admission); a != engine.Reserve && a != engine.Overcommit {
		return fmt.Errorf("--admission is %q, but must be reserve or overcommit", o.admission)
	}
	o.hostBytes = 0
	if o.savePrefix != "" || o.loadPrefix != "" {
		if o.prefixCache == "off" {
			return errors.New("--save-prefix and --load-prefix need --prefix-cache on")
		}
		o.hostBytes = defaultHostMemory
	}
	if o.hostMemory != "" {
		bytes, err := humanize.ParseBytes(o.hostMemory)
		if err != nil || bytes > 1<<62 {
			return fmt.Errorf("--host-kv-memory is %q, but must be a size such as 4GB or 512MiB", o.hostMemory)
		}
		o.hostBytes = int64(bytes)
	}
	return nil
}

// configure sets what the flags say of the engine.
func (o *pageOptions) configure(cfg *engine.Config) {
	cfg.NoPrefixCache, cfg.Admission, cfg.HostKVMemory = o.prefixCache == "off", engine.Admission(o.admission),
		o.hostBytes
}

// load reads the file of --load-prefix, once for each engine.
func (o *pageOptions) load(engines ...*engine.Engine) error {
	if o.loadPrefix == "" {
		return nil
	}
	for _, e := range engines {
		if err := o.loadInto(e); err != nil {
			return err
		}
	}
	return nil
}

func (o *pageOptions) loadInto(e *engine.Engine) error {
	f, err := os.Open(o.loadPrefix)
	if err != nil {
		return fmt.Errorf("--load-prefix: %w", err)
	}
	defer f.Close()
	if _, err := e.LoadPrefix(f); err != nil {
		return fmt.Errorf("--load-prefix %s: %w", o.loadPrefix, err)
	}
	return nil
}

// save writes the file of --save-prefix. It appears only whole.
func (o *pageOptions) save(ctx context.Context, s *session, tokens []int32) (err error) {
	if o.savePrefix == "" {
		return nil
	}
	engines := s.engines()
	if len(engines) == 0 {
		return errors.New("--save-prefix: this engine keeps no keys and values")
	}
	temporary := o.savePrefix + ".part"
	f, err := os.Create(temporary)
	if err != nil {
		return fmt.Errorf("--save-prefix: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary)
			err = fmt.Errorf("--save-prefix %s: %w", o.savePrefix, err)
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
	return os.Rename(temporary, o.savePrefix)
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
