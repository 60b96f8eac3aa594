// Command generate writes the texts of the workloads: arithmetic word problems with the length distribution of GSM8K's
// questions (a median of some 210 characters, a tail to 700), and four worked ones that serve as few-shot prefix. Run
// it by go generate ./bench/workload. Its output is committed, and is the same on every run.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
)

const (
	questions = 200
	shots     = 4
	// shotsAfter is how many questions come before the worked ones, which are generated from the same random numbers.
	shotsAfter = 128
	// The lengths of questions are distributed log-normally: exp(medianLog) is the median, sigmaLog the spread, between
	// the bounds.
	medianLog         = 5.33
	sigmaLog          = 0.42
	shortest, longest = 60, 700
	fewshotCharacters = 300
	questionsFile     = "questions.jsonl"
	fewshotFile       = "fewshot.txt"
	seedHigh, seedLow = 0x9e3779b97f4a7c15, 20261121
)

// story is one problem while it is written: who counts what, how many there are, and the steps so far.
type story struct {
	r                *rand.Rand
	name, other      string
	item, place      string
	total            int
	sentences, steps []string
	used             map[int]bool
}

var (
	names = []string{"Maya", "Tomas", "Priya", "Joel", "Amara", "Lukas", "Hana", "Diego", "Ingrid", "Omar", "Celeste",
		"Viktor", "Nadia", "Felix", "Rosa", "Kenji"}
	items = []string{"marbles", "stickers", "pencils", "apples", "postcards", "seashells", "muffins", "tickets",
		"bricks", "candles", "notebooks", "tulips", "cookies", "buttons"}
	places = []string{"at the market", "in the garden shed", "at the school fair", "in the kitchen", "at the library",
		"on the farm", "in the workshop", "at the bus stop"}
)

// opening and the moves tell one sentence each and keep the account.
var openings = []func(s *story) string{
	func(s *story) string {
		return fmt.Sprintf("%s has %d %s.", s.name, s.total, s.item)
	},
	func(s *story) string {
		return fmt.Sprintf("On Monday morning %s counts %d %s %s.", s.name, s.total, s.item, s.place)
	},
	func(s *story) string {
		a := 2 + s.r.IntN(9)
		b := 3 + s.r.IntN(12)
		s.total = a * b
		s.steps = append(s.steps, fmt.Sprintf("%s starts with %d*%d = %d %s.", s.name, a, b, s.total, s.item))
		return fmt.Sprintf("%s packs %d boxes with %d %s in each box.", s.name, a, b, s.item)
	},
}

var moves = []func(s *story) string{
	func(s *story) string {
		n := 3 + s.r.IntN(40)
		s.step(n, "+")
		return fmt.Sprintf("%s gives %s %d more %s.", s.other, s.name, n, s.item)
	},
	func(s *story) string {
		n := 1 + s.r.IntN(max(1, s.total/3))
		s.step(n, "-")
		return fmt.Sprintf("Then %s gives away %d of them to a neighbor.", s.name, n)
	},
	func(s *story) string {
		s.step(2, "*")
		return fmt.Sprintf("By the end of the week %s has worked hard and doubled the number of %s.", s.name, s.item)
	},
	func(s *story) string {
		days, each := 2+s.r.IntN(6), 2+s.r.IntN(7)
		s.steps = append(s.steps, fmt.Sprintf("In %d days that is %d*%d = %d more.", days, days, each, days*each))
		s.step(days*each, "+")
		return fmt.Sprintf("Every day for %d days %s buys another %d %s %s.", days, s.name, each, s.item, s.place)
	},
	func(s *story) string {
		n := 1 + s.r.IntN(max(1, s.total/4))
		s.step(n, "-")
		return fmt.Sprintf("On the way home, %d of the %s are lost because the bag has a hole in it.", n, s.item)
	},
	func(s *story) string {
		people, each := 2+s.r.IntN(3), 1+s.r.IntN(max(1, s.total/8))
		s.steps = append(s.steps, fmt.Sprintf("The friends take %d*%d = %d.", people, each, people*each))
		s.step(people*each, "-")
		return fmt.Sprintf("%s shares some with %d friends, and each of the friends takes %d %s.", s.name, people, each,
			s.item)
	},
	func(s *story) string {
		half := s.total / 2
		s.steps = append(s.steps, fmt.Sprintf("Half of %d, rounded down, is %d.", s.total, half))
		s.step(half, "-")
		return fmt.Sprintf("Afterwards %s sells half of the %s, rounding down to whole ones, to %s.", s.name, s.item,
			s.other)
	},
	func(s *story) string {
		n := 10 + s.r.IntN(60)
		s.step(n, "+")
		return fmt.Sprintf("%s, who is moving to another city, leaves a whole crate of %d %s behind for %s.", s.other,
			n, s.item, s.name)
	},
	func(s *story) string {
		return fmt.Sprintf("It is a sunny afternoon and there are many people %s.", s.place)
	},
	func(s *story) string {
		price := 2 + s.r.IntN(8)
		return fmt.Sprintf("Each one of the %s is worth $%d, although nobody has ever asked for the price.", s.item,
			price)
	},
}

// step changes the total and writes down how.
func (s *story) step(n int, op string) {
	before := s.total
	switch op {
	case "+":
		s.total += n
	case "-":
		s.total -= n
	case "*":
		s.total *= n
	}
	s.steps = append(s.steps, fmt.Sprintf("So %s has %d%s%d = %d %s after that.", s.name, before, op, n, s.total,
		s.item))
}

// tell makes a story of about the given number of characters.
func tell(r *rand.Rand, characters int) *story {
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	s := &story{r: r, name: pick(names), item: pick(items), place: pick(places), total: 12 + r.IntN(90),
		used: map[int]bool{}}
	for s.other = s.name; s.other == s.name; {
		s.other = pick(names)
	}
	opening := r.IntN(len(openings))
	if characters < 90 {
		opening = 0
	}
	s.sentences = []string{openings[opening](s)}
	question := fmt.Sprintf("How many %s does %s have now?", s.item, s.name)
	for length := len(s.sentences[0]) + len(question) + 1; ; {
		if len(s.used) == len(moves) {
			clear(s.used)
		}
		i := r.IntN(len(moves))
		for s.used[i] || len(s.sentences) == 1 && i >= 8 {
			i = r.IntN(len(moves))
		}
		s.used[i] = true
		sentence := moves[i](s)
		s.sentences = append(s.sentences, sentence)
		if length += len(sentence) + 1; length+30 >= characters {
			break
		}
	}
	s.sentences = append(s.sentences, question)
	return s
}

func (s *story) question() string { return strings.Join(s.sentences, " ") }

func run() error {
	r := rand.New(rand.NewPCG(seedHigh, seedLow))
	var rows bytes.Buffer
	e := json.NewEncoder(&rows)
	e.SetEscapeHTML(false)
	var prefix strings.Builder
	for i := range questions {
		for shot := 0; i == shotsAfter && shot < shots; shot++ {
			s := tell(r, fewshotCharacters)
			fmt.Fprintf(&prefix, "Question: %s\nAnswer: %s\n#### %d\n\n", s.question(), strings.Join(s.steps, " "),
				s.total)
		}
		characters := min(max(math.Exp(medianLog+sigmaLog*r.NormFloat64()), shortest), longest)
		s := tell(r, int(characters))
		err := e.Encode(struct {
			ID       string `json:"id"`
			Question string `json:"question"`
			Answer   int    `json:"answer"`
		}{fmt.Sprintf("word-problem-%03d", i), s.question(), s.total})
		if err != nil {
			return err
		}
	}
	if err := os.WriteFile(questionsFile, rows.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(fewshotFile, []byte(prefix.String()), 0o644)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
