package scoring

import "strings"

// Span is what a token stands for in its text: the characters from Start to before End, or nothing if it is special.
type Span struct {
	Start, End int
	IsSpecial  bool
}

// Tags are the labels of a text: of its parts, each from the character with the number Starts to before the one with
// Ends, with the mean of the scores of its tokens; and of all its tokens.
type Tags struct {
	Labels       []string
	Starts, Ends []int32
	Scores       []float32
	Tokens       []string
}

// outside is the label of tokens that are in no part.
const outside = "O"

// Tag labels the parts of a text by the numbers of a head for each of its tokens, as the pipeline of transformers does
// with aggregation_strategy "simple": each token has the label with the largest score, and tokens after one another
// with the same label are one part, unless its name begins with B- for the later one.
func Tag(labels []string, numbers []float32, tokens []Span) Tags {
	t := Tags{Labels: []string{}, Starts: []int32{}, Ends: []int32{}, Scores: []float32{}, Tokens: []string{}}
	group, last, sum, n := "", "", 0.0, 0 // the part that is open, if n > 0, and the kind of its last token
	var start, end int
	closeGroup := func() {
		if n > 0 && group != outside {
			t.Labels, t.Scores = append(t.Labels, group), append(t.Scores, float32(sum/float64(n)))
			t.Starts, t.Ends = append(t.Starts, int32(start)), append(t.Ends, int32(end))
		}
		sum, n = 0, 0
	}
	for i, token := range tokens {
		scores := Shares(numbers[i*len(labels) : (i+1)*len(labels)])
		best := Best(scores)
		label := labels[best]
		if t.Tokens = append(t.Tokens, label); token.IsSpecial {
			continue
		}
		kind, begins := strings.CutPrefix(label, "B-")
		if !begins {
			kind = strings.TrimPrefix(label, "I-")
		}
		if n > 0 && (begins || kind != last) {
			closeGroup()
		}
		if n == 0 {
			if group, start = label, token.Start; strings.Contains(label, "-") {
				_, group, _ = strings.Cut(label, "-")
			}
		}
		last, end = kind, token.End
		sum, n = sum+float64(scores[best]), n+1
	}
	closeGroup()
	return t
}
