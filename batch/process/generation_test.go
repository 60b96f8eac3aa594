package process

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models/arch"
)

// What a model's files ask for is a default: of parameters that the job does not give, and where it is not turned off.
func TestGenerationConfig(t *testing.T) {
	numbers := func(asked map[string]float64) arch.Generation {
		return arch.Generation{From: "generation_config.json", Asked: asked}
	}
	asked := numbers(map[string]float64{"temperature": 0.6, "top_k": 20, "repetition_penalty": 1.1, "max_tokens": 9})
	asked.Left = []string{"num_beams 4", "no_repeat_ngram_size 3"}
	var said bytes.Buffer
	job := func(config string, given ...string) *spec.Job {
		said.Reset()
		j := &spec.Job{Spec: spec.Default()}
		j.GenerationConfig, j.Given = config, given
		return j
	}
	p := &Process{Options: Options{Messages: &said}}
	auto, err := job(spec.GenerationAuto, "top_k").WithGeneration(asked, p.Printf)
	if err != nil {
		t.Fatal(err)
	}
	if s := auto.Sampling; s.Temperature != 0.6 || s.TopK != 0 || s.RepetitionPenalty != 1.1 || s.MaxTokens != 9 {
		t.Errorf("%+v", s)
	}
	if !auto.EngineConfig().Features.Has(engine.Penalties) {
		t.Errorf("features %v", auto.EngineConfig().Features)
	}
	p.ReportDefaults(auto)
	for _, want := range []string{
		"defaults: max_tokens 9, temperature 0.6, repetition_penalty 1.1, of the model's generation_config.json; ",
		"warning: the model's generation_config.json asks for num_beams 4, no_repeat_ngram_size 3, which",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("said %q, want %q", said.String(), want)
		}
	}
	none, err := job(spec.GenerationNone).WithGeneration(asked, p.Printf)
	if p.ReportDefaults(none); err != nil || none.Sampling.Temperature != 1 || said.Len() > 0 {
		t.Errorf("%v, %+v, said %q", err, none.Sampling, said.String())
	}
	same, err := job(spec.GenerationAuto).WithGeneration(numbers(map[string]float64{"temperature": 1}), p.Printf)
	if p.ReportDefaults(same); err != nil || said.Len() > 0 {
		t.Errorf("%v, said %q", err, said.String())
	}
	for want, asked := range map[string]map[string]float64{
		"generation_config.json has top_k 2.5, which is no whole number: give the parameter, or": {"top_k": 2.5},
		"generation_config.json: top_p is 0, but must be in 0 < top_p <= 1":                      {"top_p": 0},
		"generation_config.json: min_p is -1, but must be":                                       {"min_p": -1},
	} {
		_, err := job(spec.GenerationAuto).WithGeneration(numbers(asked), p.Printf)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
