// Package queue hands out the units of jobs to workers through NATS JetStream. It knows a unit only as a number and a
// range of rows, and a job only as a text that its workers understand.
//
// # Layout
//
// One stream and one bucket serve any number of jobs. If they are missing they are created, in files and without
// replicas. If the operator of the servers has created them, they are used as they are.
//
//	stream QUIRE_UNITS, a work queue: quire.units.JOB.NUMBER   a unit that is neither done nor parked
//	its consumer JOB                                           who has which unit; acks within Job.AckWait
//	bucket QUIRE_JOBS: JOB.job                                 the Job
//	                   JOB.unit.NUMBER                         the state of a unit, and its results
//	                   JOB.worker.NAME                         a live worker, and its speed
//	                   JOB.refused.NAME                        a worker that cannot do the job, and why
//	                   output/HASH                             the job that has an output
//
// # Guarantees
//
// A unit is leased to one worker at a time, which renews the lease every quarter of Job.AckWait. If it does not, the
// unit goes to another worker. Only the server's clock counts. If that clock is set back, the units of a dead worker
// wait that much longer. If it is set forward by about AckWait, units of live workers are handed out again. A worker
// that notices this returns the unit by [Lease.Busy]; otherwise it counts as a try. A unit is therefore done at least
// once, and whoever publishes its results must expect that another worker, thought dead, has published them too.
//
// A unit that fails, or whose worker dies, is handed out again. After Job.MaxTries attempts without progress it is
// parked with the last error. Progress means that more rows are done than ever before. A unit that a worker gives back
// in good order does not count as a try.
//
// While the server is away all operations wait, for at most Options.Patience.
package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/quire/quire/tally"
)

const (
	streamName = "QUIRE_UNITS"
	bucketName = "QUIRE_JOBS"
	subjects   = "quire.units."
	// duplicates is how long the server knows that a unit was published; longer than a submission takes.
	duplicates = time.Hour
)

// DefaultAckWait is how long a worker may be silent about a unit, and DefaultMaxTries how often one may fail, where the
// job says nothing.
const (
	DefaultAckWait  = time.Minute
	DefaultMaxTries = 5
)

var (
	// ErrNoJob says that the queue has no job of that name.
	ErrNoJob = errors.New("no such job in the queue")
	// ErrNoJetStream says that the server has no JetStream.
	ErrNoJetStream = errors.New(
		"the NATS server has no JetStream; start it with -js, or with a jetstream block in its configuration")
	// ErrUnreachable says that the server was away for longer than Options.Patience.
	ErrUnreachable = errors.New("the NATS server does not answer")
	// ErrTooLong says that a job's description is longer than a message may be.
	ErrTooLong = errors.New("the job's description is longer than a message to the NATS server may be")
)

// Unit is a piece of a job.
type Unit struct {
	Number int   `json:"unit"`
	From   int64 `json:"from"` // first row
	To     int64 `json:"to"`   // the row after the last
	// File is the one that the first row is in, for people.
	File string `json:"file"`
}

func (u Unit) String() string {
	return fmt.Sprintf("unit %d (rows %d to %d, from %s on)", u.Number, u.From, u.To-1, u.File)
}

// Job is what workers need to know.
type Job struct {
	// ID names the job: letters, digits, - and _. The same job has the same one.
	ID     string          `json:"id"`
	Name   string          `json:"name"`   // for people
	Config json.RawMessage `json:"config"` // for workers
	Units  int             `json:"units"`
	Rows   int64           `json:"rows"`   // of the whole job, with what was done before
	Before tally.Counts    `json:"before"` // of what was done before it was submitted
	// AckWait is how long a worker may be silent about a unit.
	AckWait  time.Duration `json:"ack_wait_ns"`
	MaxTries int           `json:"max_tries"`

	// Output names what the job writes to: no two jobs that are not over have the same. Empty is a job without.
	Output string `json:"output,omitempty"`

	Born  string `json:"born"`  // tells the job from one of its name that was removed
	Epoch int    `json:"epoch"` // how often units were published
	Ready bool   `json:"ready"` // all of them are
	// Cancelled says that no more is to be done of it until it is submitted again.
	Cancelled bool `json:"cancelled,omitempty"`
}

// States of a unit. One without a record waits.
const (
	Waiting = "waiting"
	Running = "running"
	Done    = "done"
	Parked  = "parked"
)

// record is what the bucket has of a unit.
type record struct {
	Unit   Unit   `json:"unit"`
	State  string `json:"state"`
	Worker string `json:"worker,omitempty"`
	Life   string `json:"life,omitempty"`  // of that worker: it may be started again under its name
	Reply  string `json:"reply,omitempty"` // where an ack of the running delivery goes
	// Since is when that worker got it, by its clock.
	Since time.Time `json:"since,omitzero"`
	// Tries counts what failed and what was lost since Best, the most rows that were ever done, grew.
	Tries   int          `json:"tries,omitempty"`
	Best    int64        `json:"best,omitempty"`
	Error   string       `json:"error,omitempty"`
	Figures tally.Counts `json:"figures"`
}

func jobKey(job string) string             { return job + ".job" }
func unitKey(job string, unit int) string  { return job + ".unit." + strconv.Itoa(unit) }
func workerKey(job, name string) string    { return job + ".worker." + name }
func subject(job string, unit int) string  { return subjects + job + "." + strconv.Itoa(unit) }
func kindOf(key string) (kind, job string) { k := strings.SplitN(key, ".", 3); return k[1], k[0] }

// CleanName makes a text one that a worker or a job may have as its name.
func CleanName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, name)
}

// get reads a value of the bucket; revision 0 says that there is none.
func (q *Queue) get(ctx context.Context, key string, v any) (revision uint64, err error) {
	err = q.again(ctx, func(ctx context.Context) error {
		entry, err := q.kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			revision = 0
			return nil
		}
		if err != nil {
			return err
		}
		revision = entry.Revision()
		return json.Unmarshal(entry.Value(), v)
	})
	return revision, err
}

// errChanged says that a value is not what it was when it was read.
var errChanged = errors.New("changed meanwhile")

// swap writes a value in place of the revision that was read. The error is errChanged where that is not what is there.
func (q *Queue) swap(ctx context.Context, key string, v any, was uint64) (revision uint64, err error) {
	text, err := q.encode(v)
	if err != nil {
		return 0, err
	}
	err = q.again(ctx, func(ctx context.Context) (err error) {
		if was == 0 {
			revision, err = q.kv.Create(ctx, key, text)
		} else {
			revision, err = q.kv.Update(ctx, key, text, was)
		}
		var api *jetstream.APIError
		if errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) &&
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			return errChanged
		}
		return err
	})
	return revision, err
}

// put writes a value whatever is there.
func (q *Queue) put(ctx context.Context, key string, v any) error {
	text, err := q.encode(v)
	if err != nil {
		return err
	}
	return q.again(ctx, func(ctx context.Context) error {
		_, err := q.kv.Put(ctx, key, text)
		return err
	})
}

func (q *Queue) encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if most := q.nc.MaxPayload(); err == nil && most > 0 && int64(len(text)) > most-1024 {
		return nil,
			fmt.Errorf("%w: %d bytes, limit %d; raise the server's max_payload, or submit jobs with fewer input files",
				ErrTooLong, len(text), most-1024)
	}
	return text, err
}
