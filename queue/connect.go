package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options say which server, and how.
type Options struct {
	// URL is nats://HOST:PORT or tls://HOST:PORT, or several with commas between them.
	URL string
	// CA, Cert and Key are PEM files: of who signed the server's certificate, and of this client's. Any of them asks
	// for TLS.
	CA, Cert, Key string
	// Credentials is a file with a user's JWT and seed.
	Credentials    string
	User, Password string
	// Name is shown by the server's monitoring.
	Name string
	// Patience is how long the server may be away before what waits for it fails; default 10 minutes.
	Patience time.Duration
	Log      *slog.Logger // default: none
}

// callTimeout is how long one answer of the server may take, listTimeout how long all that it knows of a job may.
const (
	callTimeout = 5 * time.Second
	listTimeout = 2 * time.Minute
)

// Queue is a connection to a server. Its methods may be called from several goroutines.
type Queue struct {
	options Options
	nc      *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
	kv      jetstream.KeyValue
	log     *slog.Logger
}

// HideSecrets returns a server's URL without user and password.
func HideSecrets(servers string) string {
	all := strings.Split(servers, ",")
	for i, s := range all {
		at := strings.LastIndexByte(s, '@')
		if at < 0 {
			continue
		}
		scheme := ""
		if j := strings.Index(s, "://"); j >= 0 && j < at {
			scheme = s[:j+3]
		}
		all[i] = scheme + s[at+1:]
	}
	return strings.Join(all, ",")
}

// Connect waits for the server, and makes the stream and the bucket if there are none. No error of it shows a secret.
func Connect(ctx context.Context, o Options) (*Queue, error) {
	if o.Patience == 0 {
		o.Patience = 10 * time.Minute
	}
	q := &Queue{options: o, log: o.Log}
	if q.log == nil {
		q.log = slog.New(slog.DiscardHandler)
	}
	options, err := o.nats(q.log)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*Queue, error) {
		if q.nc != nil {
			q.nc.Close()
		}
		var u *url.Error
		if errors.As(err, &u) { // its text has the whole URL
			err = u.Err
		}
		return nil, fmt.Errorf("NATS at %s: %w", HideSecrets(o.URL), err)
	}
	err = q.again(ctx, func(context.Context) (err error) {
		q.nc, err = nats.Connect(o.URL, options...)
		return err
	})
	if err != nil {
		return fail(err)
	}
	if q.js, err = jetstream.New(q.nc); err != nil {
		return fail(err)
	}
	if err := q.again(ctx, q.layOut); err != nil {
		return fail(err)
	}
	return q, nil
}

// nats returns the client's options.
func (o Options) nats(log *slog.Logger) ([]nats.Option, error) {
	all := []nats.Option{
		nats.Name(o.Name), nats.Timeout(callTimeout), nats.MaxReconnects(-1), nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		// What was said before the server went away may be wrong when it is back: nothing is kept for it.
		nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(func(tries int) time.Duration {
			return min(50*time.Millisecond<<min(tries, 10),
				2*time.Second)
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("lost the connection to the NATS server; running units continue, everything else waits",
					"err", err.Error())
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("reconnected to the NATS server", "server",
				HideSecrets(nc.ConnectedUrl()))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Debug("NATS", "err", err.Error())
		}),
	}
	if (o.Cert == "") != (o.Key == "") {
		return nil, errors.New("give a client certificate and its key together")
	}
	if o.CA != "" {
		all = append(all, nats.RootCAs(o.CA))
	}
	if o.Cert != "" {
		all = append(all, nats.ClientCert(o.Cert, o.Key))
	}
	if o.Credentials != "" {
		all = append(all, nats.UserCredentials(o.Credentials))
	}
	if o.User != "" {
		all = append(all, nats.UserInfo(o.User, o.Password))
	}
	return all, nil
}

// layOut finds or makes the stream and the bucket.
func (q *Queue) layOut(ctx context.Context) (err error) {
	q.stream, err = q.js.Stream(ctx, streamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		q.stream, err = q.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: streamName, Description: "units of Quire's jobs", Subjects: []string{subjects + ">"},
			Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Duplicates: duplicates,
		})
	}
	if err != nil {
		return err
	}
	q.kv, err = q.js.KeyValue(ctx, bucketName)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		q.kv, err = q.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: bucketName, Description: "Quire's jobs", History: 1, Storage: jetstream.FileStorage,
		})
	}
	return err
}

// Close ends the connection.
func (q *Queue) Close() { q.nc.Close() }

// again does a call until it is answered, the error is one that stays, or the server was away for too long.
func (q *Queue) again(ctx context.Context, call func(ctx context.Context) error) error {
	return q.againWithin(ctx, callTimeout, call)
}

func (q *Queue) againWithin(ctx context.Context, timeout time.Duration, call func(ctx context.Context) error) error {
	start := time.Now() // monotonic
	for try := 0; ; try++ {
		one, cancel := context.WithTimeout(ctx, timeout)
		err := call(one)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil: // which the client may tell as a timeout
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case !passing(err):
			return err
		}
		if time.Since(start) > q.options.Patience {
			if errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
				errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
				return ErrNoJetStream
			}
			return fmt.Errorf("%w for %s: %w", ErrUnreachable, q.options.Patience, err)
		}
		q.log.Debug("retrying a NATS request", "err", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(20*time.Millisecond<<min(try, 10), time.Second)):
		}
	}
}

// passing says that the same call may go well later.
func passing(err error) bool {
	for _, e := range []error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrNoServers,
		nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting,
		nats.ErrDisconnected, nats.ErrStaleConnection, jetstream.ErrNoStreamResponse, jetstream.ErrServerShutdown,
		jetstream.ErrJetStreamNotEnabled,
		jetstream.ErrJetStreamNotEnabledForAccount, jetstream.ErrConsumerLeadershipChanged, jetstream.ErrNoHeartbeat,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	var api *jetstream.APIError
	var network net.Error
	return errors.As(err, &api) && (api.Code == 503 || api.Code == 408) || errors.As(err, &network) ||
		errors.Is(err, io.EOF)
}
