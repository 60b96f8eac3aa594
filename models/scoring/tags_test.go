package scoring

import (
	"fmt"
	"math"
	"testing"
)

// Parts are those of transformers' pipeline: B- begins another one, other names continue, and special tokens are not
// there.
func TestTag(t *testing.T) {
	labels := []string{"O", "B-PER", "I-PER", "LOC"}
	for _, c := range []struct {
		best string // numbers of labels by token; x is a special token
		want string
	}{
		{"012203", "[PER LOC] [1 5] [4 6]"},
		{"x11x", "[PER PER] [1 2] [2 3]"},
		{"122x2", "[PER] [0] [5]"},
		{"2133", "[PER PER LOC] [0 1 2] [1 2 4]"},
		{"000", "[] [] []"},
		{"", "[] [] []"},
	} {
		var numbers []float32
		var spans []Span
		for i, b := range c.best {
			four := make([]float32, 4)
			if b == 'x' {
				b = '1'
				spans = append(spans, Span{IsSpecial: true})
			} else {
				spans = append(spans, Span{Start: i, End: i + 1})
			}
			four[b-'0'] = 2
			numbers = append(numbers, four...)
		}
		got := Tag(labels, numbers, spans)
		if text := fmt.Sprint(got.Labels, got.Starts, got.Ends); text != c.want || len(got.Tokens) != len(spans) {
			t.Errorf("%s: %s of %v, want %s", c.best, text, got.Tokens, c.want)
		}
		for _, s := range got.Scores {
			if want := math.E * math.E / (math.E*math.E + 3); math.Abs(float64(s)-want) > 1e-6 {
				t.Errorf("%s: the score is %v, want %v", c.best, s, want)
			}
		}
	}
}
