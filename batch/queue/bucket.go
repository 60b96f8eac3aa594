package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// bucket is what the server knows of jobs, by key. Several processes write to it: a value is replaced only if it is
// still the one that was read.
type bucket struct {
	*server
	kv jetstream.KeyValue
}

func jobKey(job string) string             { return job + ".job" }
func unitKey(job string, unit int) string  { return job + ".unit." + strconv.Itoa(unit) }
func workerKey(job, name string) string    { return job + ".worker." + name }
func subject(job string, unit int) string  { return subjects + job + "." + strconv.Itoa(unit) }
func kindOf(key string) (kind, job string) { k := strings.SplitN(key, ".", 3); return k[1], k[0] }
func refusalKey(job, name string) string   { return job + ".refused." + name }

// get reads a value of the bucket. Revision 0 means that there is none.
func (b *bucket) get(ctx context.Context, key string, v any) (revision uint64, err error) {
	err = b.again(ctx, func(ctx context.Context) error {
		entry, err := b.kv.Get(ctx, key)
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

// errChanged reports that a value has changed since it was read.
var errChanged = errors.New("changed meanwhile")

// swap writes a value in place of the revision that was read. The error is errChanged if that is not there any more.
func (b *bucket) swap(ctx context.Context, key string, v any, was uint64) (revision uint64, err error) {
	text, err := b.encode(v)
	if err != nil {
		return 0, err
	}
	err = b.again(ctx, func(ctx context.Context) (err error) {
		if was == 0 {
			revision, err = b.kv.Create(ctx, key, text)
		} else {
			revision, err = b.kv.Update(ctx, key, text, was)
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

// put writes a value, regardless of the present one.
func (b *bucket) put(ctx context.Context, key string, v any) error {
	text, err := b.encode(v)
	if err != nil {
		return err
	}
	return b.again(ctx, func(ctx context.Context) error {
		_, err := b.kv.Put(ctx, key, text)
		return err
	})
}

// purge removes a value and its history.
func (b *bucket) purge(ctx context.Context, key string) error {
	return b.again(ctx, func(ctx context.Context) error { return b.kv.Purge(ctx, key) })
}

// each calls f with every value whose key matches.
func (b *bucket) each(ctx context.Context, keys string, f func(jetstream.KeyValueEntry) error) error {
	var all []jetstream.KeyValueEntry
	err := b.againWithin(ctx, listTimeout, func(ctx context.Context) error {
		all = nil
		// A watch outlives the server, but the answer of a server that died never comes: neither the answer to the
		// request for a watch nor, perhaps, the values that it had yet to send.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		silence := time.AfterFunc(callTimeout, cancel)
		defer silence.Stop()
		w, err := b.kv.Watch(ctx, keys, jetstream.IgnoreDeletes())
		if err != nil {
			return unanswered(ctx, err)
		}
		defer w.Stop()
		for {
			select {
			case entry, ok := <-w.Updates():
				if !ok {
					return nats.ErrTimeout
				}
				silence.Reset(callTimeout)
				if entry == nil { // all that was there
					return nil
				}
				all = append(all, entry)
			case <-ctx.Done():
				return unanswered(ctx, ctx.Err())
			}
		}
	})
	for _, entry := range all {
		if err != nil {
			break
		}
		err = f(entry)
	}
	return err
}

// unanswered returns the error of a call whose context was cancelled because no answer came.
func unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nats.ErrTimeout
	}
	return err
}

// job returns a job of the queue, or ErrNoJob.
func (b *bucket) job(ctx context.Context, id string) (Job, error) {
	var job Job
	if id != CleanName(id) || id == "" {
		return job, fmt.Errorf("%q: %w", id, ErrNoJob)
	}
	revision, err := b.get(ctx, jobKey(id), &job)
	if err == nil && revision == 0 {
		err = fmt.Errorf("%q: %w", id, ErrNoJob)
	}
	return job, err
}
