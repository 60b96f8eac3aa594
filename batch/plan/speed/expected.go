package speed

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/backend/chip"
	"github.com/quire/quire/backend/hlo"
	"github.com/quire/quire/data/setting"
)

// Expected is how fast the compiled programs would be, judging by what they consist of: the compiler's estimates of
// operations, and stated rates for what it has no estimate for. [Estimate] is what a job could reach. Neither is
// measured.
type Expected struct {
	Decode                 StepTime `json:"decode"`
	Prefill                StepTime `json:"prefill"`
	DecodeTokensPerSecond  float64  `json:"decode_tokens_per_second"`
	PrefillTokensPerSecond float64  `json:"prefill_tokens_per_second"`
	// Steps is what the compiler expects, and what it has no estimate for.
	Steps hlo.Steps `json:"steps"`

	// Seconds in which a step multiplies with the weights of the layers, or reads them.
	decodeWeights, prefillWeights float64
}

// StepTime is the seconds of the parts of a step, which follow each other.
type StepTime struct {
	Layers float64 `json:"layers_seconds"` // without the other parts
	// Attention is what its kernel takes by the roofline, or the compiler's estimate for the loops of its plain form.
	Attention float64 `json:"attention_seconds"`
	Rows      float64 `json:"rows_seconds"`      // scatters and gathers
	Exchanges float64 `json:"exchanges_seconds"` // between devices
	Sampling  float64 `json:"sampling_seconds"`
	// Tables is everything else, mostly tables of pages and sequences, with a share of what each call does once.
	Tables float64 `json:"tables_seconds"`
}

// Total is the seconds of a step.
func (t StepTime) Total() float64 {
	return t.Layers + t.Attention + t.Rows + t.Exchanges + t.Sampling + t.Tables
}

// Rates for what the compiler has no estimate for.
const (
	// scatterBandwidth and scatterRow are bytes per second, and seconds of a row at least. On a TPU v6e 28 GB/s were
	// measured for rows of 4 KiB, keys and values of a token (pull request 20415 of vLLM). TPUs write rows one by one.
	scatterBandwidth = 28e9
	scatterRow       = 4096 / scatterBandwidth
	// leastCycles is the compiler's estimate for the smallest operations.
	leastCycles = 2120
)

// Expected is the time of steps of compiled programs.
func (w Work) Expected(c chip.Chip, steps hlo.Steps) Expected {
	plain := !steps.HasKernels
	pricer := pricer{chip: c, devices: float64(w.Devices)}
	batch, context, step := float64(w.Sequences), float64(w.Context), float64(w.Step)
	loops, within, decodeLoops := w.Tiles, w.Tiles, 1.0
	decodeBlock, prefillBlock, queries := attention.PlainBlocks(w.PageSize)
	if plain {
		decodeLoops = math.Ceil(context / float64(decodeBlock))
		loops = max(w.Tiles, math.Ceil(step/float64(queries)))
		within = loops * math.Ceil(context/2/float64(prefillBlock))
	}
	weights := func(tokens float64) float64 {
		return max(tokens*2*w.LayerParams/c.FLOPs, w.Read(tokens)*w.WeightSize/c.Bandwidth)
	}
	e := Expected{Steps: steps, decodeWeights: weights(batch), prefillWeights: weights(step),
		Decode:  pricer.step(steps.Decode, decodeLoops, decodeLoops, plain),
		Prefill: pricer.step(steps.Prompt, loops, within, plain)}
	for _, t := range []*StepTime{&e.Decode, &e.Prefill} {
		pricer.add(t, &t.Tables, steps.Around, 1)
		pricer.add(t, &t.Tables, steps.Round, 1)
		pricer.add(t, &t.Tables, steps.Call, 1/float64(max(1, w.Rounds)))
	}
	pricer.add(&e.Decode, &e.Decode.Sampling, steps.Draw, 1)
	// The step with a prompt's last token samples.
	pricer.add(&e.Prefill, &e.Prefill.Sampling, steps.Draw, min(1, step/context))
	if !plain {
		e.Decode.Attention = batch * context * w.KVBytesPerToken / c.Bandwidth
		e.Prefill.Attention = max(step*w.attention()*context/2/c.FLOPs, context/2*w.KVBytesPerToken/c.Bandwidth)
	}
	e.DecodeTokensPerSecond, e.PrefillTokensPerSecond = batch/e.Decode.Total(), step/e.Prefill.Total()
	return e
}

// pricer turns work into seconds.
type pricer struct {
	chip    chip.Chip
	devices float64
}

// step is the time of a step's layers, with so many rounds of the loops of unknown length. Without a kernel these loops
// are attention's.
func (p pricer) step(l hlo.Layers, loops, within float64, plain bool) (t StepTime) {
	p.add(&t, &t.Layers, l.Once, 1)
	of := &t.Layers
	if plain {
		of = &t.Attention
	}
	p.add(&t, of, l.Loops, loops)
	p.add(&t, of, l.Within, within)
	return t
}

// add adds work, so many times: what has an estimate to a part, and everything else to the parts of its own.
func (p pricer) add(t *StepTime, part *float64, w hlo.Work, times float64) {
	cycles := float64(w.Cycles)
	for _, r := range []hlo.Rows{w.Small, w.Offloaded} {
		cycles += leastCycles * float64(r.Operations)
	}
	*part += times * cycles / p.chip.Clock
	least := func(r hlo.Rows) float64 { return leastCycles * float64(r.Operations) / p.chip.Clock }
	scatters := max(least(w.Scatters), float64(w.Scatters.Rows)*scatterRow, float64(w.Scatters.Bytes)/scatterBandwidth)
	gathers := max(least(w.Gathers), 2*float64(w.Gathers.Bytes)/p.chip.Bandwidth) // read and written
	t.Rows += times * (scatters + gathers)
	if p.devices > 1 {
		others := (p.devices - 1) / p.devices
		sent := others*(2*float64(w.Sums)+float64(w.Gathered)) + float64(w.Moved)
		t.Exchanges += times * sent / p.chip.Link
	}
}

// slower is the share by which expected is longer than the roofline without a warning.
const slower = 0.25

// Warnings names why a job is expected to be much slower than the roofline. copied is a large array that its programs
// copy, if there is one.
func (e *Expected) Warnings(roofline Estimate, copied *hlo.Copy) (list []setting.Text) {
	for _, kind := range []struct {
		name              string
		time              StepTime
		possible, reached float64
		weights           float64
	}{
		{"decoding", e.Decode, roofline.DecodeTokensPerSecond, e.DecodeTokensPerSecond, e.decodeWeights},
		{"a prompt", e.Prefill, roofline.PrefillTokensPerSecond, e.PrefillTokensPerSecond, e.prefillWeights},
	} {
		if kind.possible <= (1+slower)*kind.reached {
			continue
		}
		t := kind.time
		reasons := []reason{
			{"layers beyond their weights", t.Layers - kind.weights}, {"scatters and gathers of rows", t.Rows},
			{"exchanges between devices", t.Exchanges}, {"sampling", t.Sampling}, {"tables", t.Tables},
		}
		if !e.Steps.HasKernels {
			reasons = append(reasons, reason{"attention without a kernel", t.Attention})
		}
		text := "%s is expected to take %.1f times as long as the roofline: %s"
		args := []any{kind.name, kind.possible / kind.reached, largest(reasons)}
		if copied != nil {
			text += "; %s copies %s, %s"
			args = append(args, copied.In, copied.Array, humanize.IBytes(uint64(copied.Bytes)))
		}
		list = append(list, setting.Textf(text, args...))
	}
	return list
}

// reason is why a step is slow.
type reason struct {
	name    string
	seconds float64
}

// largest lists the reasons that make up most of a delay, in words.
func largest(reasons []reason) string {
	slices.SortStableFunc(reasons, func(a, b reason) int { return cmp.Compare(b.seconds, a.seconds) })
	const enough = 3
	var parts []string
	for _, r := range reasons[:enough] {
		if r.seconds > reasons[0].seconds/10 {
			parts = append(parts, fmt.Sprintf("%s %.1f ms", r.name, 1000*r.seconds))
		}
	}
	return strings.Join(parts, ", ")
}
