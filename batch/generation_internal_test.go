package batch

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quire/quire/engine"
)

// What a model's generation_config.json asks for is a default: of parameters that the job does not give, and where it
// is not turned off.
func TestGenerationConfig(t *testing.T) {
	asked := map[string]float64{"temperature": 0.6, "top_k": 20, "repetition_penalty": 1.1, "max_tokens": 9}
	var said bytes.Buffer
	task := func(config string, given ...string) *Task {
		said.Reset()
		o := &Task{Spec: DefaultSpec()}
		o.Messages, o.GenerationConfig, o.Given = &said, config, given
		return o
	}
	auto := task(GenerationAuto, "top_k")
	if err := auto.takeGeneration(asked); err != nil {
		t.Fatal(err)
	}
	if s := auto.Sampling; s.Temperature != 0.6 || s.TopK != 0 || s.RepetitionPenalty != 1.1 || s.MaxTokens != 9 {
		t.Errorf("%+v", s)
	}
	if !auto.EngineConfig().Features.Has(engine.Penalties) {
		t.Errorf("features %v", auto.EngineConfig().Features)
	}
	const asks = "asks for max_tokens 9, temperature 0.6, repetition_penalty 1.1"
	if !strings.Contains(said.String(), asks) {
		t.Errorf("said %q", said.String())
	}
	none := task(GenerationNone)
	if err := none.takeGeneration(asked); err != nil || none.Sampling.Temperature != 1 || said.Len() > 0 {
		t.Errorf("%v, %+v, said %q", err, none.Sampling, said.String())
	}
	same := task(GenerationAuto)
	if err := same.takeGeneration(map[string]float64{"temperature": 1}); err != nil || said.Len() > 0 {
		t.Errorf("%v, said %q", err, said.String())
	}
	for want, asked := range map[string]map[string]float64{
		"generation_config.json has top_k 2.5, which is no whole number: give the parameter, or": {"top_k": 2.5},
		"generation_config.json: top_p is 0, but must be in 0 < top_p <= 1":                      {"top_p": 0},
		"generation_config.json: min_p is -1, but must be":                                       {"min_p": -1},
	} {
		o := task(GenerationAuto)
		if err := o.takeGeneration(asked); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
