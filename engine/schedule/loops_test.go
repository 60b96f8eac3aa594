package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/schedule/model"
)

// visits is what a job takes: steps of each kind, and how often the host is asked.
type visits struct{ prompt, decode, host int }

func (v visits) steps() int { return v.prompt + v.decode }

// lengthsOf are the completions' tokens of the jobs that loops are compared with, 512 each.
func lengthsOf(kind string) []int {
	r := rand.New(rand.NewPCG(61, 4))
	lengths := make([]int, 512)
	for i := range lengths {
		switch kind {
		case "all 256":
			lengths[i] = 256
		case "16 to 496, even":
			lengths[i] = 16 + r.IntN(481)
		case "geometric, 256 on average":
			lengths[i] = 1 + min(4095, int(256*r.ExpFloat64()))
		case "64, one of 16 has 2,048":
			if lengths[i] = 64; i%16 == 0 {
				lengths[i] = 2048
			}
		}
	}
	return lengths
}

const (
	loopSlots, loopColumns, loopPrompt, loopStep = 64, 16, 256, 1024
)

// ours runs a job of such completions on the model of the device.
func ours(t *testing.T, lengths []int) visits {
	t.Helper()
	perSeq := 72 // pages of 64 tokens: 4,608
	s := schedule.Sizes{MaxSeqs: loopSlots, Slots: loopSlots, PageSize: 64, PrefixRows: 32, MaxRounds: loopColumns,
		PromptLimit: 8192, Paged: true, Reserve: true, PagesPerSeq: perSeq, Pages: (loopSlots + 32) * perSeq,
		BlockPages: 16, Staged: 1}
	w := &work{device: model.New(s, loopStep), inOrder: true}
	w.device.Draw = func(s model.Sequence) (int32, schedule.Finish) {
		if len(s.Tokens)+1 >= s.Request.MaxLen {
			return 1, schedule.AtLength
		}
		return 1, schedule.Running
	}
	for i, n := range lengths {
		tokens := make([]int32, loopPrompt)
		for k := range tokens {
			tokens[k] = int32(1 + (i+k*k)%7)
		}
		w.requests = append(w.requests, &schedule.Request{Tag: number(i), Context: schedule.None, N: 1, Tokens: tokens,
			MaxLen: loopPrompt + n})
	}
	all, stats, err := w.run(t.Context())
	if err != nil || len(all) != len(lengths) {
		t.Fatalf("%d of %d completions: %v", len(all), len(lengths), err)
	}
	return visits{stats.PrefillSteps, stats.DecodeSteps, stats.Calls}
}

// untilOneEnds is a loop on the device that returns to the host when one of the sequences ends, or after so many steps,
// as continue_decode of tpu-inference: the host fills free slots, and each step with prompt tokens, which also decodes,
// is a call of its own.
func untilOneEnds(lengths []int) (v visits) {
	waiting := slices.Clone(lengths)
	type sequence struct{ prompt, left int }
	var running []sequence
	for len(waiting)+len(running) > 0 {
		for len(running) < loopSlots && len(waiting) > 0 {
			running = append(running, sequence{loopPrompt, waiting[0]})
			waiting = waiting[1:]
		}
		v.host++
		if slices.ContainsFunc(running, func(s sequence) bool { return s.prompt > 0 }) {
			v.prompt++
			room := loopStep
			for i := range running {
				if running[i].prompt == 0 {
					room--
					running[i].left--
				}
			}
			for i := range running {
				if s := &running[i]; s.prompt > 0 && room > 0 {
					n := min(room, s.prompt)
					room -= n
					if s.prompt -= n; s.prompt == 0 {
						s.left--
					}
				}
			}
		} else {
			steps := loopColumns
			for _, s := range running {
				steps = min(steps, s.left)
			}
			v.decode += steps
			for i := range running {
				running[i].left -= steps
			}
		}
		running = slices.DeleteFunc(running, func(s sequence) bool { return s.prompt == 0 && s.left == 0 })
	}
	return v
}

// The loop that refills slots asks the host a fraction of the times that a loop does which ends with the first of its
// sequences, and takes hardly more steps. bench/loops.md has the table.
func TestHostVisitsAtSkewedLengths(t *testing.T) {
	var table strings.Builder
	for _, kind := range []string{"all 256", "16 to 496, even", "geometric, 256 on average",
		"64, one of 16 has 2,048"} {
		lengths := lengthsOf(kind)
		sum := 0
		for _, n := range lengths {
			sum += n
		}
		a, b := ours(t, lengths), untilOneEnds(lengths)
		fmt.Fprintf(&table, "| %s | %d | %d + %d | %d | %d + %d | %d |\n", kind, (sum+loopSlots-1)/loopSlots, a.prompt,
			a.decode, a.host, b.prompt, b.decode, b.host)
		if 2*a.host > b.host || a.steps()*10 > b.steps()*13 {
			t.Errorf("%s: %+v, and until one ends %+v", kind, a, b)
		}
	}
	t.Log("\n" + table.String())
}
