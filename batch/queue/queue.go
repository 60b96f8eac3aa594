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
// unit goes to a different worker. Only the server's clock counts. If that clock is set back, the units of a dead
// worker wait that much longer. If it is set forward by about AckWait, units of live workers are handed out again. A
// worker that notices this returns the unit by [Lease.Busy]; otherwise it counts as a try. A unit is therefore done at
// least once, and a worker that publishes its results must expect that a different worker, thought dead, has published
// them too.
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

	"github.com/nats-io/nats.go/jetstream"
)

// Queue is the jobs of a server, and a connection to it. Its methods may be called from several goroutines: everything
// that changes is at the server, and none of the fields changes after Connect.
type Queue struct {
	server *server
	bucket *bucket
	units  *unitStream
	claims *claims
}

// Connect waits for the server, and makes the stream and the bucket if there are none. No error of it shows a secret.
func Connect(ctx context.Context, o Options) (*Queue, error) {
	s, err := dial(ctx, o)
	if err != nil {
		return nil, err
	}
	q := &Queue{server: s, bucket: &bucket{server: s}, units: &unitStream{server: s}}
	q.claims = &claims{q.bucket, q.units}
	if q.units.js, err = jetstream.New(s.nc); err != nil {
		return nil, s.failed(err)
	}
	if err := s.again(ctx, q.layOut); err != nil {
		return nil, s.failed(err)
	}
	return q, nil
}

// layOut finds or makes the stream and the bucket.
func (q *Queue) layOut(ctx context.Context) (err error) {
	q.units.stream, err = q.units.js.Stream(ctx, streamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		q.units.stream, err = q.units.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: streamName, Description: "units of Quire's jobs", Subjects: []string{subjects + ">"},
			Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Duplicates: duplicates,
		})
	}
	if err != nil {
		return err
	}
	q.bucket.kv, err = q.units.js.KeyValue(ctx, bucketName)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		q.bucket.kv, err = q.units.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: bucketName, Description: "Quire's jobs", History: 1, Storage: jetstream.FileStorage,
		})
	}
	return err
}

// Close ends the connection.
func (q *Queue) Close() { q.server.nc.Close() }

// Job returns a job of the queue, or ErrNoJob.
func (q *Queue) Job(ctx context.Context, id string) (Job, error) { return q.bucket.job(ctx, id) }

// Jobs returns all jobs of the queue, in the order in which they were submitted.
func (q *Queue) Jobs(ctx context.Context) (all []Job, err error) {
	err = q.bucket.each(ctx, "*.job", func(entry jetstream.KeyValueEntry) error {
		var job Job
		if err := json.Unmarshal(entry.Value(), &job); err != nil {
			return err
		}
		all = append(all, job)
		return nil
	})
	return all, err
}

// Left reports whether units of a job wait, or workers hold some.
func (q *Queue) Left(ctx context.Context, job Job) (bool, error) { return q.units.left(ctx, job) }

// Free returns an [*OutputTakenError] if another job that is not over has the job's output.
func (q *Queue) Free(ctx context.Context, job Job) error {
	_, _, err := q.claims.owner(ctx, job)
	return err
}

// Remove removes a job and everything that is known about it from the queue. Workers that have units of it finish them
// in vain.
func (q *Queue) Remove(ctx context.Context, id string) error {
	job, err := q.bucket.job(ctx, id)
	if err != nil {
		return err
	}
	claimed, ours, _ := q.claims.owner(ctx, job)
	return q.server.againWithin(ctx, listTimeout, func(ctx context.Context) error {
		// The job goes first, so that no worker starts on it any more.
		if err := q.bucket.kv.Purge(ctx, jobKey(id)); err != nil {
			return err
		}
		if ours && claimed > 0 {
			// Another job that has the output meanwhile keeps it.
			_ = q.bucket.kv.Purge(ctx, outputKey(job.Output), jetstream.LastRevision(claimed))
		}
		if err := q.units.stream.DeleteConsumer(ctx, id); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return err
		}
		if err := q.units.stream.Purge(ctx, jetstream.WithPurgeSubject(subjects+id+".>")); err != nil {
			return err
		}
		return q.bucket.each(ctx, id+".>", func(entry jetstream.KeyValueEntry) error {
			return q.bucket.kv.Purge(ctx, entry.Key())
		})
	})
}

// Refusal is a worker that could not work on a job, and the reason.
type Refusal struct {
	Worker     string  `json:"worker"`
	Host       string  `json:"host"`
	Error      string  `json:"error"`
	SecondsAgo float64 `json:"seconds_ago"` // by the server's clock
	// Final reports that what the job asks for cannot be, such as an input that is not there any more.
	Final bool `json:"final,omitempty"`
}

// Refuse records that a worker can't work on a job, for [Queue.Status]. The record goes when the worker starts to, or
// when the job is submitted again.
func (q *Queue) Refuse(ctx context.Context, id string, r Refusal) error {
	if _, err := q.bucket.job(ctx, id); err != nil {
		return err
	}
	return q.bucket.put(ctx, refusalKey(id, r.Worker), r)
}
