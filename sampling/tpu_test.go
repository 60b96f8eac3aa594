package sampling_test

import (
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/sampling"
)

// likeTPU is a backend that says it is a TPU's: the sampler is then built without sorts.
type likeTPU struct{ compute.Backend }

func (likeTPU) Platform() string { return "tpu" }

// The form for TPU searches thresholds in the whole vocabulary; what it draws is the same, bit for bit.
func TestFormForTPUDrawsTheSame(t *testing.T) {
	plain, tpu := newSampler(t, testenv.XLAWithoutKernels(t)), newSampler(t, likeTPU{testenv.XLAWithoutKernels(t)})
	r := rand.New(rand.NewPCG(31, 32))
	rows := make([]row, 33)
	for range 4 {
		for i := range rows {
			rows[i] = row{logits: languageLike(r, 9000), settings: filters[i%len(filters)],
				key: sampling.RequestKey(r.Uint64(), 1, 2), position: int32(i)}
		}
		got := tpu.draw(t, rows)
		for i, want := range plain.draw(t, rows) {
			if got[i] != want {
				t.Errorf("%+v: %+v, want %+v", rows[i].settings, got[i], want)
			}
		}
	}
}
