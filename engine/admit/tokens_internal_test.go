package admit

import (
	"slices"
	"testing"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/sampling"
)

// The model's own tokens bar or end a completion, as ignore_eos and min_tokens say; each token is there once.
func TestStopTokensOfARequest(t *testing.T) {
	c := &Checker{model: models.Config{EOS: []int32{2, 9}}}
	for _, want := range []struct {
		r    Request
		want []int32
	}{
		{Request{}, []int32{2, 9}},
		{Request{IgnoreEOS: true}, nil},
		{Request{IgnoreEOS: true, Sampling: sampling.Settings{MinTokens: 1}},
			[]int32{device.BarredOnly(2), device.BarredOnly(9)}},
		{Request{StopTokens: []int32{9, 5, 9}}, []int32{5, 9, 2}},
		{Request{StopTokens: []int32{9, 5}, IgnoreEOS: true, Sampling: sampling.Settings{MinTokens: 1}},
			[]int32{5, 9, device.BarredOnly(2)}},
	} {
		if got, _ := c.StopTokens(&want.r); !slices.Equal(got, want.want) {
			t.Errorf("%+v: %v, want %v", want.r, got, want.want)
		}
	}
}
