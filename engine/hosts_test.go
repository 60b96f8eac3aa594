package engine_test

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// fewPages makes sequences move to the host and back.
func fewPages(c *engine.Config) {
	c.KVMemory, c.HostKVMemory, c.Admission, c.Debug = 16*16*2*2*2*8*4, 64<<20, engine.Overcommit, false
}

// structuresOnFewPages is an engine for texts of structures, which it learns of when the first comes, whose sequences
// move to the host and back.
func structuresOnFewPages(t *testing.T, change func(*engine.Config)) *engine.Engine {
	return structureEngine(t, func(c *engine.Config) {
		c.Features = 0
		fewPages(c)
		change(c)
	})
}

// drawn is what one process tells another of a completion.
type drawn struct {
	Tokens                      []int32
	Logprobs, ProcessedLogprobs []float32
	TopIDs                      [][]int32
	TopLogprobs                 [][]float32
	Prompt                      *engine.PromptScores
	FinishReason                engine.FinishReason
}

func plain(all []map[string]*engine.Completion) (list []map[string]drawn) {
	for _, of := range all {
		list = append(list, map[string]drawn{})
		for key, c := range of {
			list[len(list)-1][key] = drawn{c.Tokens, c.Logprobs, c.ProcessedLogprobs, c.TopIDs,
				c.TopLogprobs, c.Prompt, c.FinishReason}
		}
	}
	return list
}

func completions(of map[string]drawn) map[string]*engine.Completion {
	all := map[string]*engine.Completion{}
	for key, d := range of {
		all[key] = &engine.Completion{FinishReason: d.FinishReason, Generated: engine.Generated{Tokens: d.Tokens,
			Logprobs: d.Logprobs, ProcessedLogprobs: d.ProcessedLogprobs, TopIDs: d.TopIDs, TopLogprobs: d.TopLogprobs,
			Prompt: d.Prompt}}
	}
	return all
}

// Processes with a part of the model each draw what one process does with the same number of devices, byte for byte:
// also where pages move to the hosts, in a second run, with features that come during a third, and with structures.
func TestHostsDrawTheSame(t *testing.T) {
	group, argument, ok := testenv.AsHost(t)
	if ok {
		var devices int
		var file string
		if _, err := fmt.Sscan(argument, &devices, &file); err != nil {
			t.Fatal(err)
		}
		e := structuresOnFewPages(t, func(c *engine.Config) {
			c.Backend, c.Hosts = testenv.GroupOver(t, group, devices), group
		})
		if !group.Leads() {
			if err := e.Follow(t.Context()); err != nil {
				t.Error(err)
			}
			if e.Calls() == 0 {
				t.Error("nothing was done")
			}
			return
		}
		all := []map[string]*engine.Completion{collectInOrder(t, e, longRequests(12)...)}
		if e.Stats().Preemptions == 0 {
			t.Error("no sequence was moved: the test does not reach what it is for")
		}
		if _, err := e.SavePrefix(t.Context(), make([]int32, 32), nil); !errors.Is(err, engine.ErrSeveralHosts) {
			t.Error(err)
		}
		all = append(all, collect(t, e, contractRequests()...))
		if !testing.Short() {
			_, features := allFeatures(contractRequests) // which the program that draws grows for, on all
			all = append(all, collect(t, e, features...), collect(t, e, structured(20)...))
		}
		group.End(0)
		f, err := os.Create(file)
		if err == nil {
			err = errors.Join(gob.NewEncoder(f).Encode(plain(all)), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, devices := range []int{1, 2} {
		file := filepath.Join(t.TempDir(), "drawn")
		output, failures := testenv.RunHosts(t, 2, fmt.Sprintf("%d %s", devices, file))
		if err := errors.Join(failures...); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(output, "\n"))
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var got []map[string]drawn
		if err := gob.NewDecoder(f).Decode(&got); err != nil {
			t.Fatal(err)
		}
		e := structuresOnFewPages(t, func(c *engine.Config) {
			c.Backend = testenv.Group(t, xla.KernelsAuto, firstDevices(2*devices)...)
		})
		sameBytes(t, collect(t, e, longRequests(12)...), completions(got[0]), true)
		sameBytes(t, collect(t, e, contractRequests()...), completions(got[1]), true)
		if testing.Short() {
			return
		}
		_, features := allFeatures(contractRequests)
		sameBytes(t, collect(t, e, features...), completions(got[2]), true)
		sameBytes(t, collect(t, e, structured(20)...), completions(got[3]), true)
	}
}

// A process that comes to something else, that dies, or whose engine is another one ends all of them with an error that
// says so.
func TestHostsThatDiffer(t *testing.T) {
	group, argument, ok := testenv.AsHost(t)
	if !ok {
		for _, c := range []struct{ what, want string }{
			{"steps", "process 1 differs from process 0 in "},
			{"engine", `process 1 differs from process 0 in the engine: prefill_tokens is 32, not 64; program run is`},
			{"dies", "process 1 is lost"},
			{"fails", "planning the engine: kv is \"none\""},
			{"leader dies", "process 0 is lost"},
		} {
			if testing.Short() && c.what != "steps" && c.what != "dies" {
				continue // part of make test-slow
			}
			output, failures := testenv.RunHosts(t, 2, c.what)
			for id := range failures {
				dies := c.what == "dies" && id == 1 || c.what == "leader dies" && id == 0
				if !dies && (failures[id] == nil || !strings.Contains(output[id], "the end: ") ||
					!strings.Contains(output[id], c.want)) {
					t.Errorf("%s, process %d: %v\n%s", c.what, id, failures[id], output[id])
				}
			}
		}
		return
	}
	odd := !group.Leads()
	cfg := contractConfig()
	fewPages(&cfg) // as TestHostsDrawTheSame has it
	cfg.Model, cfg.Hosts = testenv.Model(t, contractFamily), group
	switch {
	case odd && argument == "engine":
		cfg.PrefillTokens = 32
	case odd && argument == "fails":
		cfg.KV = "none"
	}
	cfg.Backend = testenv.GroupOver(t, group, 1)
	e, err := engine.New(t.Context(), cfg)
	if err != nil {
		t.Fatal("the end: ", err)
	}
	if !group.Leads() {
		calls := 0
		e.Followed(func(columns *int32) {
			switch calls++; {
			case calls < 3:
			case argument == "dies":
				os.Exit(1)
			case argument == "steps":
				*columns = 1
			}
		})
		t.Fatal("the end: ", e.Follow(t.Context()))
	}
	drawn := 0
	for _, err := range e.Run(t.Context(), slices.Values(longRequests(40))) {
		if err != nil {
			t.Fatal("the end: ", err)
		}
		if drawn++; drawn > 2 && argument == "leader dies" {
			os.Exit(1)
		}
	}
	group.End(0)
}
