package engine

import (
	"errors"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
)

// What a call tells the host is declared here once, for the device and for the host, as its input is. What has two
// dimensions is one slice on the host, row by row.

// outputOf is the output of the run program. What a step draws is a column: C in all.
type outputOf[Int, Ints, Floats, Longs, Status any] struct {
	Tokens    Ints   // i32[C, S]: the token drawn for a slot
	Logprobs  Floats // f32[C, S]
	Processed Floats // f32[C, S]
	// i32[C, S]: whose token it is: an entry that waited, or A + row for a row that stood before the call; -1 = none
	Owners  Ints
	Finish  Ints // i32[C, S]: one of the finish codes
	Columns Int  // i32[]: columns filled
	Placed  Ints // i32[A]: the row that each entry that waits got; -1 = none
	Opened  Ints // i32[H]: 1 where the prompt got its row
	SeqLens Ints // i32[R], as the call leaves them

	PrefillSteps, DecodeSteps   Int // i32[]
	PrefillTokens, DecodeTokens Int // i32[]: tokens run by these steps
	Status                      Status
	FreePages                   Ints  // i32[C]: free pages after the step that drew a column
	MinFree                     Int   // i32[]: the fewest free pages after any step
	EndFree                     Int   // i32[]: free pages when the call ends
	Short                       Int   // i32[]: pages without which the sequences that run can not take their next step
	Rules                       Ints  // i32[K]: violations of each rule, in debug mode; else nil
	Clock                       Longs // i64[6]: see newClock; nil where there is none
}

type (
	output     = outputOf[*Node, *Node, *Node, *Node, seqtable.Status]
	hostOutput = outputOf[int32, []int32, []float32, []int64, hostStatus]
)

// Finish codes of a token.
const (
	running = iota
	finishedStop
	finishedLength
	finishedNaN
)

// verbsOutputOf is the output of the context program.
type verbsOutputOf[Int, Ints, Status any] struct {
	Status  Status
	EndFree Int  // i32[]: free pages
	Rules   Ints // as in outputOf
}

type (
	verbsOutput     = verbsOutputOf[*Node, *Node, seqtable.Status]
	hostVerbsOutput = verbsOutputOf[int32, []int32, hostStatus]
)

// scoreOutputOf is the output of the score program.
type scoreOutputOf[Int, Floats, Status any] struct {
	Status   Status
	Logprobs Floats // f32[T]: log softmax(logits)[Next] at each
	EndFree  Int    // i32[]
}

type (
	scoreOutput     = scoreOutputOf[*Node, *Node, seqtable.Status]
	hostScoreOutput = scoreOutputOf[int32, []float32, hostStatus]
)

// loadOutputOf is the output of the load program.
type loadOutputOf[Status any] struct{ Status Status }

type (
	loadOutput     = loadOutputOf[seqtable.Status]
	hostLoadOutput = loadOutputOf[hostStatus]
)

// saveOutput is the output of the save program, which is read as it is.
type saveOutput struct {
	Layers []*Node // one a layer: K pages; those that the row does not have are arbitrary
}

// hostStatus is a [seqtable.Status] on the host.
type hostStatus struct{ Code, Need, Have, Slot int32 }

// check turns what the device noted into errors: a status, and the violations of each rule, if they were counted.
// pinned is as ErrOutOfPages has it, which the device does not know.
func (s hostStatus) check(rules []int32, pinned int) error {
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
