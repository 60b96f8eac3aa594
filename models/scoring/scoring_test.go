package scoring

import (
	"math"
	"slices"
	"testing"

	"github.com/quire/quire/models/arch"
)

// Functions are chosen as transformers and sentence-transformers choose them.
func TestChoice(t *testing.T) {
	one, two := []string{"a"}, []string{"a", "b"}
	for _, c := range []struct {
		head           arch.Classifier
		classes, pairs Function
	}{
		{arch.Classifier{Labels: two}, Softmax, Sigmoid},
		{arch.Classifier{Labels: one}, Sigmoid, Sigmoid},
		{arch.Classifier{Labels: one, Function: "identity"}, Sigmoid, None},
		{arch.Classifier{Labels: one, Function: "sigmoid"}, Sigmoid, Sigmoid},
		{arch.Classifier{Labels: one, Problem: arch.Regression}, None, Sigmoid},
		{arch.Classifier{Labels: two, Problem: arch.MultiLabel}, Sigmoid, Sigmoid},
		{arch.Classifier{Labels: one, Problem: arch.SingleLabel}, Sigmoid, Sigmoid},
	} {
		if got := OfClasses(&c.head); got != c.classes {
			t.Errorf("%+v: %s for classes, want %s", c.head, got, c.classes)
		}
		if got := OfPairs(&c.head); got != c.pairs {
			t.Errorf("%+v: %s for pairs, want %s", c.head, got, c.pairs)
		}
	}
}

func TestApply(t *testing.T) {
	numbers := []float32{1000, 1001, -1000}
	for f, want := range map[Function][]float32{None: numbers, Sigmoid: {1, 1, 0},
		Softmax: {float32(1 / (1 + math.E)), float32(math.E / (1 + math.E)), 0}} {
		got := f.Apply(numbers)
		for i := range got {
			if math.Abs(float64(got[i]-want[i])) > 1e-7 {
				t.Errorf("%s is %v, want %v", f, got, want)
			}
		}
	}
	if numbers[0] != 1000 {
		t.Error("the numbers were changed")
	}
}

func TestOrder(t *testing.T) {
	scores := []float32{0.5, 2, -1, 2}
	if Best(scores) != 1 {
		t.Errorf("the best is %d", Best(scores))
	}
	for n, want := range map[int][]int32{0: {1, 3, 0, 2}, 3: {1, 3, 0}, 9: {1, 3, 0, 2}} {
		if got := Ranking(scores, n); !slices.Equal(got, want) {
			t.Errorf("the first %d are %v, want %v", n, got, want)
		}
	}
}
