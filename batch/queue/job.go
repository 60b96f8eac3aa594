package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quire/quire/data/tally"
)

const (
	streamName = "QUIRE_UNITS"
	bucketName = "QUIRE_JOBS"
	subjects   = "quire.units."
	// duplicates is how long the server remembers that a unit was published: longer than a submission takes.
	duplicates = time.Hour
)

// DefaultAckWait is how long a worker may be silent about a unit, and DefaultMaxTries how often one may fail, unless
// the job sets them.
const (
	DefaultAckWait  = time.Minute
	DefaultMaxTries = 5
)

var (
	// ErrNoJob reports that the queue has no job of that name.
	ErrNoJob = errors.New("no such job in the queue")
	// ErrNoJetStream reports that the server has no JetStream.
	ErrNoJetStream = errors.New(
		"the NATS server has no JetStream; start it with -js, or with a jetstream block in its configuration")
	// ErrUnreachable reports that the server was away for longer than Options.Patience.
	ErrUnreachable = errors.New("the NATS server does not answer")
	// ErrTooLong reports that a job's description is longer than a message may be.
	ErrTooLong = errors.New("the job's description is longer than a message to the NATS server may be")
)

// Unit is a piece of a job.
type Unit struct {
	Number int   `json:"unit"`
	From   int64 `json:"from"` // first row
	To     int64 `json:"to"`   // the row after the last
	// File has the first row, for people.
	File string `json:"file"`
}

func (u Unit) String() string {
	return fmt.Sprintf("unit %d (rows %d to %d, from %s on)", u.Number, u.From, u.To-1, u.File)
}

// Job is what workers need to know of a job.
type Job struct {
	// ID names the job, with letters, digits, - and _. The same job always has the same ID.
	ID     string          `json:"id"`
	Name   string          `json:"name"`   // for people
	Config json.RawMessage `json:"config"` // config of the workers
	Units  int             `json:"units"`
	Rows   int64           `json:"rows"`   // of the whole job, including rows done before
	Before tally.Counts    `json:"before"` // what was done before the job was submitted
	// AckWait is how long a worker may be silent about a unit.
	AckWait  time.Duration `json:"ack_wait_ns"`
	MaxTries int           `json:"max_tries"`

	// Output names what the job writes to; empty for nothing. No two jobs that are not over have the same output.
	Output string `json:"output,omitempty"`

	Born  string `json:"born"`  // differs from a removed job of the same name
	Epoch int    `json:"epoch"` // how often units were published
	Ready bool   `json:"ready"` // all units are published
	// Cancelled states that no unit is handed out until the job is submitted again.
	Cancelled bool `json:"cancelled,omitempty"`
}

// States of a unit. One without a record waits.
const (
	Waiting = "waiting"
	Running = "running"
	Done    = "done"
	Parked  = "parked"
)

// record is the state of a unit in the bucket.
type record struct {
	Unit   Unit   `json:"unit"`
	State  string `json:"state"`
	Worker string `json:"worker,omitempty"`
	Life   string `json:"life,omitempty"`  // of that worker, which may be started again under its name
	Reply  string `json:"reply,omitempty"` // subject for the ack of the running delivery
	// Since is when that worker got the unit, by its clock.
	Since time.Time `json:"since,omitzero"`
	// Tries counts failures and lost workers since Best, the most rows that were ever done, grew.
	Tries   int          `json:"tries,omitempty"`
	Best    int64        `json:"best,omitempty"`
	Error   string       `json:"error,omitempty"`
	Figures tally.Counts `json:"figures"`
}

// CleanName turns a text into a valid name of a worker or a job.
func CleanName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, name)
}
