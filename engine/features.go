package engine

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/sampling"
)

// Features is a set of what requests may ask for that needs arrays of its own on the device, and a program that has
// them: see [Config.Features].
type Features = feature.Set

// The features.
const (
	Penalties    = feature.Penalties    // repetition_penalty, frequency_penalty, presence_penalty
	MaskedTokens = feature.MaskedTokens // structured output, allowed_token_ids, bad_words
	Biases       = feature.Biases       // logit_bias, and min_tokens where more tokens than device.MaxStopTokens end
	Filters      = feature.Filters      // typical_p, top_n_sigma, XTC
	Thinking     = feature.Thinking     // max_thinking_tokens
	DRY          = feature.DRY          // dry_multiplier
	NoRepeat     = feature.NoRepeat     // no_repeat_ngram_size
	// top_logprobs, prompt_logprobs, and more of the likeliest tokens than 20 of either
	TopLogprobs    = feature.TopLogprobs
	PromptLogprobs = feature.PromptLogprobs
	WideLogprobs   = feature.WideLogprobs
)

// FeaturesOf are those that requests with these settings ask for.
func FeaturesOf(s sampling.Settings) Features { return featuresOf(s) }

// FeaturesNamed are the features of these names.
func FeaturesNamed(names ...string) (Features, error) { return feature.Named(names...) }

// featuresOf are the features that a request asks for.
func featuresOf(s sampling.Settings) (f Features) {
	if s.Penalized() {
		f |= Penalties
	}
	if s.Filtered() {
		f |= Filters
	}
	if s.HasDRY() {
		f |= DRY
	}
	if s.NoRepeatNgramSize > 0 {
		f |= NoRepeat
	}
	return f
}

// featuresProgram is what process 0 calls that the program run gets more features.
const featuresProgram = "features"

// grow gives the program run the features that entries and prompts ahead ask for, if it lacks them.
func (e *Engine) grow(entries []schedule.Entry, ahead []schedule.Prompt) error {
	all := e.graphs.Features
	for _, entry := range entries {
		all |= entry.Request.Tag.(tag).features
	}
	for _, p := range ahead {
		if p.Score > 0 {
			all |= ScoringFeatures(0, p.Score-1)
		}
	}
	if all == e.graphs.Features {
		return nil
	}
	all |= Features(e.asked.Load()) // so that it is compiled once for all that wait
	announced := &device.Compiled{Program: device.Program{Name: featuresProgram}}
	err := e.inStep.announce(announced, [][]byte{[]byte(strings.Join(all.Names(), " "))}, nil)
	if err == nil {
		err = e.addFeatures(all)
	}
	return err
}

// followFeatures is grow for processes other than 0.
func (e *Engine) followFeatures(sent [][]byte) error {
	if len(sent) != 1 {
		return errors.New("process 0 does not say which features the program run gets")
	}
	all, err := feature.Named(strings.Fields(string(sent[0]))...)
	if err != nil {
		return fmt.Errorf("what process 0 wants of the program run: %w", err)
	}
	return e.addFeatures(all)
}

// addFeatures compiles the program run for more features, and makes their extras. What rows have of other features
// stays.
func (e *Engine) addFeatures(all Features) error {
	start := time.Now()
	more := all &^ e.graphs.Features
	gr := *e.graphs
	gr.Features = all
	name := func(err error) error {
		return fmt.Errorf("the program for %s, which a request asks for (see Config.Features): %w", more, err)
	}
	e.swapper.wait() // what runs beside looks at the graphs too
	for _, p := range gr.Programs() {
		if p.Name != device.Run {
			continue
		}
		built, err := gr.Compile(e.cfg.Backend, p)
		if err != nil {
			return name(err)
		}
		run := e.program(device.Run)
		extras, err := e.newExtras(built, run)
		if err != nil {
			built.Executable.Finalize()
			return name(err)
		}
		old := run.Executable
		*run = *built // in place: others read the list of programs
		old.Finalize()
		e.extras = extras
	}
	e.graphs = &gr
	if err := e.loadMaskTexts(); err != nil {
		return name(err)
	}
	if s := e.sent[device.Run]; s != nil {
		finalize(s.buffers)
		delete(e.sent, device.Run)
	}
	e.log.Info("the program that draws is compiled anew", "features", all.String(), "seconds",
		time.Since(start).Seconds())
	if e.inStep != nil {
		return e.inStep.agree(e)
	}
	return nil
}

// newExtras makes the extras of the program run, but for those that another form of it has: these it takes over.
func (e *Engine) newExtras(built, before *device.Compiled) (extras []compute.Buffer, err error) {
	have := map[string]compute.Buffer{}
	if before != nil {
		for i, l := range before.Extras {
			have[l.Name] = e.extras[i]
		}
	}
	var made []compute.Buffer
	for _, l := range built.Extras {
		b := have[l.Name]
		if b == nil {
			n := l.Shape.Size()
			zeros := reflect.MakeSlice(reflect.SliceOf(l.Shape.DType.GoType()), n, n).Interface()
			if b, err = toDevices(e.cfg.Backend, l, zeros); err != nil {
				finalize(made)
				return nil, fmt.Errorf("%s: %w", l.Name, err)
			}
			made = append(made, b)
		}
		extras = append(extras, b)
	}
	return extras, nil
}

// FeatureNames are the names of all features.
func FeatureNames() []string { return (^Features(0)).Names() }
