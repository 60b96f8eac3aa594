package device

import (
	"errors"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
)

// The output of a program is declared once, for the device and for the host, like its input. A two-dimensional array is
// one slice on the host, row by row.

// outputOf is the output of the run program: everything that the scheduler reads, and more.
type outputOf[Int, Ints, Floats, Longs, Status any] struct {
	schedule.OutputOf[Int, Ints, Floats]
	Status Status
	Rules  Ints  // i32[K]: violations of each rule, in debug mode; else nil
	Clock  Longs // i64[6]: see newClock; nil without a clock
	// Waits, i32[2], is how many slots wait for the host to fill in their states when the call ends, and how many
	// tokens the waiting slots have missed; nil without masks.
	Waits Ints
}

type (
	output = outputOf[*Node, *Node, *Node, *Node, seqtable.Status]
	Output = outputOf[int32, []int32, []float32, []int64, Status]
)

// verbsOutputOf is the output of the context program.
type verbsOutputOf[Int, Ints, Status any] struct {
	Status  Status
	EndFree Int  // i32[]: free pages
	Pages   Ints // as in schedule.OutputOf; the owners of pages are rows
	Rules   Ints // as in outputOf
}

type (
	verbsOutput = verbsOutputOf[*Node, *Node, seqtable.Status]
	VerbsOutput = verbsOutputOf[int32, []int32, Status]
)

// scoreOutputOf is the output of the score program.
type scoreOutputOf[Int, Ints, Floats, Status any] struct {
	Status   Status
	Logprobs Floats // f32[T]: log softmax(logits)[Next] at each
	EndFree  Int    // i32[]
	Pages    Ints   // as in verbsOutputOf
}

type (
	scoreOutput = scoreOutputOf[*Node, *Node, *Node, seqtable.Status]
	ScoreOutput = scoreOutputOf[int32, []int32, []float32, Status]
)

// passOutputOf is the output of the pass program.
type passOutputOf[Int, Ints, Floats, Status any] struct {
	Status  Status
	Logits  Floats // f32[PassLogits, vocabulary]: the logits after the tokens wanted; the rest is arbitrary
	EndFree Int    // i32[]
	Pages   Ints   // as in verbsOutputOf
}

type (
	passOutput = passOutputOf[*Node, *Node, *Node, seqtable.Status]
	PassOutput = passOutputOf[int32, []int32, []float32, Status]
)

// loadOutputOf is the output of the load program.
type loadOutputOf[Ints, Status any] struct {
	Status Status
	Pages  Ints // i32[K]: the pages that were taken, in order of position, followed by -1
}

type (
	loadOutput = loadOutputOf[*Node, seqtable.Status]
	LoadOutput = loadOutputOf[[]int32, Status]
)

// saveOutput is the output of the save program, which is read as it is.
type saveOutput struct {
	Layers []*Node // one per layer: K pages; pages that the row does not have are arbitrary
}

// Status is a [seqtable.Status] on the host.
type Status struct{ Code, Need, Have, Slot int32 }

// Check turns what the device noted into errors: a status, and the violations of each rule, if they were counted.
// pinned is as ErrOutOfPages has it, which the device does not know.
func (s Status) Check(rules []int32, pinned int) error {
	err := seqtable.StatusError([]int32{s.Code, s.Need, s.Have, s.Slot})
	var short pagetable.ErrOutOfPages
	if errors.As(err, &short) {
		short.Pinned = pinned
		return short
	}
	if err == nil && rules != nil {
		err = seqtable.CheckError(rules)
	}
	return err
}
