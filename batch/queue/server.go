package queue

import (
	"context"
	"encoding/json"
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

// Options are which server to connect to, and how.
type Options struct {
	// URL is nats://HOST:PORT or tls://HOST:PORT, or several with commas between them.
	URL string
	// CA, Cert and Key are PEM files: the authority that signed the server's certificate, and this client's certificate
	// and key. Any of them asks for TLS.
	CA, Cert, Key string
	// Credentials is a file with a user's JWT and seed.
	Credentials    string
	User, Password string
	// Name is shown by the server's monitoring.
	Name string
	// Patience is how long the server may be away before operations that wait for it fail; default 10 minutes.
	Patience time.Duration
	Log      *slog.Logger // default: none
}

// callTimeout is how long one answer of the server may take, listTimeout how long a list of all keys of a job.
const (
	callTimeout = 5 * time.Second
	listTimeout = 2 * time.Minute
)

// server is a connection to a server that survives its absence. Several goroutines may use it: none of its fields
// changes after dial.
type server struct {
	options Options
	nc      *nats.Conn
	log     *slog.Logger
}

// dial waits for the server.
func dial(ctx context.Context, o Options) (*server, error) {
	if o.Patience == 0 {
		o.Patience = 10 * time.Minute
	}
	s := &server{options: o, log: o.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	options, err := o.nats(s.log)
	if err != nil {
		return nil, err
	}
	err = s.again(ctx, func(context.Context) (err error) {
		s.nc, err = nats.Connect(o.URL, options...)
		return err
	})
	if err != nil {
		return nil, s.failed(err)
	}
	return s, nil
}

// failed closes the connection, and returns an error of connecting without secrets.
func (s *server) failed(err error) error {
	if s.nc != nil {
		s.nc.Close()
	}
	var u *url.Error
	if errors.As(err, &u) { // its text has the whole URL
		err = u.Err
	}
	return fmt.Errorf("NATS at %s: %w", HideSecrets(s.options.URL), err)
}

// HideSecrets returns a server's URL without user and password.
func HideSecrets(servers string) string {
	all := strings.Split(servers, ",")
	for i, u := range all {
		index := strings.LastIndexByte(u, '@')
		if index < 0 {
			continue
		}
		scheme := ""
		if j := strings.Index(u, "://"); j >= 0 && j < index {
			scheme = u[:j+3]
		}
		all[i] = scheme + u[index+1:]
	}
	return strings.Join(all, ",")
}

// nats returns the client's options.
func (o Options) nats(log *slog.Logger) ([]nats.Option, error) {
	all := []nats.Option{
		nats.Name(o.Name), nats.Timeout(callTimeout), nats.MaxReconnects(-1), nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		// Messages from before the server went away may be wrong when it is back, so none is kept.
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

// again repeats a call until it is answered, the error is permanent, or the server was away for too long.
func (s *server) again(ctx context.Context, call func(ctx context.Context) error) error {
	return s.againWithin(ctx, callTimeout, call)
}

func (s *server) againWithin(ctx context.Context, timeout time.Duration, call func(ctx context.Context) error) error {
	start := time.Now() // monotonic
	for try := 0; ; try++ {
		one, cancel := context.WithTimeout(ctx, timeout)
		err := call(one)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil: // the client may report it as a timeout
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case !passing(err):
			return err
		}
		if time.Since(start) > s.options.Patience {
			if errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
				errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
				return ErrNoJetStream
			}
			return fmt.Errorf("%w for %s: %w", ErrUnreachable, s.options.Patience, err)
		}
		s.log.Debug("retrying a NATS request", "err", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(20*time.Millisecond<<min(try, 10), time.Second)):
		}
	}
}

// passing reports whether the same call may succeed later.
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

// encode returns the text of a value, if it fits into a message.
func (s *server) encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if most := s.nc.MaxPayload(); err == nil && most > 0 && int64(len(text)) > most-1024 {
		return nil,
			fmt.Errorf("%w: %d bytes, limit %d; raise the server's max_payload, or submit jobs with fewer input files",
				ErrTooLong, len(text), most-1024)
	}
	return text, err
}
