package jobflags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/crew"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/batch/queue/local"
	"github.com/quire/quire/cmd/sample/cli"
)

// Queue are the flags for the NATS server that has the jobs, and how to reach it. If a flag is not given the variable
// counts that NATS' own tools take.
type Queue struct {
	URL, CA, Cert, Key, Credentials, user, passwordFile string
	Patience                                            time.Duration
}

// variables of the environment.
const (
	NatsURL      = "NATS_URL"
	NatsUser     = "NATS_USER"
	NatsPassword = "NATS_PASSWORD"
)

func (o *Queue) Define(s *pflag.FlagSet, patience time.Duration) {
	s.StringVar(&o.URL, "nats", "",
		"`URL` NATS server, such as tls://nats.example.com:4222 (default: $NATS_URL, or nats://127.0.0.1:4222)")
	cli.PlaceVar(s, &o.CA, cli.OnThisMachine, "nats-ca", "",
		"`FILE` CA certificates that verify the server's, in PEM (default: $NATS_CA, or the system's)")
	cli.PlaceVar(s, &o.Cert, cli.OnThisMachine, "nats-cert", "",
		"`FILE` client certificate (default: $NATS_CERT)")
	cli.PlaceVar(s, &o.Key, cli.OnThisMachine, "nats-key", "",
		"`FILE` key of the client certificate (default: $NATS_KEY)")
	cli.PlaceVar(s, &o.Credentials, cli.OnThisMachine, "nats-creds", "",
		"`FILE` user credentials, with a JWT and a seed (default: $NATS_CREDS)")
	s.StringVar(&o.user, "nats-user", "", "`USER` user name (default: $NATS_USER)")
	cli.PlaceVar(s, &o.passwordFile, cli.OnThisMachine, "nats-password-file", "",
		"`FILE` a file whose first line is the password (default: $NATS_PASSWORD holds the password)")
	s.DurationVar(&o.Patience, "nats-wait", patience,
		"`TIME` give up when the server has been unreachable this long")
}

// Connect connects to the server. The warning is for a password that everybody on the way can read.
func (o *Queue) Connect(ctx context.Context, env *cli.Environment, log *slog.Logger) (*queue.Queue, error) {
	orEnv := func(flag, variable string) string { return cmp.Or(flag, os.Getenv(variable)) }
	host, _ := os.Hostname()
	options := queue.Options{
		URL: cmp.Or(orEnv(o.URL, NatsURL), "nats://127.0.0.1:4222"), CA: orEnv(o.CA, "NATS_CA"),
		Cert: orEnv(o.Cert, "NATS_CERT"), Key: orEnv(o.Key, "NATS_KEY"),
		Credentials: orEnv(o.Credentials, "NATS_CREDS"), User: orEnv(o.user, NatsUser),
		Password: os.Getenv(NatsPassword),
		Name:     fmt.Sprintf("sample on %s, process %d", host, os.Getpid()), Patience: o.Patience, Log: log,
	}
	if o.Patience <= 0 {
		return nil, cli.Usagef("--nats-wait is %s, but must be more than nothing", o.Patience)
	}
	if o.passwordFile != "" {
		text, err := os.ReadFile(o.passwordFile)
		if err != nil {
			return nil, fmt.Errorf("--nats-password-file: %w", err)
		}
		options.Password, _, _ = strings.Cut(string(text), "\n")
		options.Password = strings.TrimSuffix(options.Password, "\r")
	}
	if options.User == "" {
		options.Password = ""
	}
	if server, open := inTheOpen(options); open {
		fmt.Fprintf(env.Stderr, "warning: the password goes to %s without TLS; give tls:// and --nats-ca\n", server)
	}
	waiting := time.AfterFunc(time.Second, func() {
		text := fmt.Sprintf("waiting for the NATS server at %s, %s at most (--nats-wait)",
			queue.HideSecrets(options.URL), o.Patience)
		if log != nil {
			log.Warn(text)
		} else {
			fmt.Fprintln(env.Stderr, text)
		}
	})
	defer waiting.Stop()
	q, err := queue.Connect(ctx, options)
	if errors.Is(err, queue.ErrUnreachable) {
		err = fmt.Errorf("%w; give the address of a server with --nats or $NATS_URL, or start one: \"sample nats "+
			"--store FOLDER\"", err)
	}
	return q, err
}

// inTheOpen reports whether a password goes over the network as it is.
func inTheOpen(o queue.Options) (server string, open bool) {
	for _, s := range strings.Split(o.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(s))
		if err != nil || u.Scheme == "tls" || o.CA != "" || o.Cert != "" || o.User == "" && u.User == nil {
			continue
		}
		if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return u.Host, true
		}
	}
	return "", false
}

func NewNATS() *cli.Command {
	var listen, store, cert, key, ca string
	return &cli.Command{
		Name:    "nats",
		Summary: "run a NATS server for the queue, where none is at hand",
		About: `
Runs the NATS project's server inside this program: a single server with JetStream, in the foreground, until SIGINT or
SIGTERM. "sample run --workers" starts one of its own and does not need this.

It listens on this machine only, unless --listen names another host. It then needs a user and a password, $NATS_USER and
$NATS_PASSWORD, and should have a certificate. Its files are not synced at once: run important jobs on a cluster of
nats-server.`,
		Example: `
sample nats --store /var/lib/quire-nats
NATS_USER=quire NATS_PASSWORD=$(cat secret) sample nats --store /data --listen 0.0.0.0:4222 --tls-cert server.pem --tls-key server.key`,
		Flags: func(f *cli.Flags) {
			f.Group("Server", func(s *pflag.FlagSet) {
				s.StringVar(&listen, "listen", "127.0.0.1:4222",
					"`ADDRESS` address to listen on; port 0 takes a free one")
				cli.PlaceVar(s, &store, cli.OnThisMachine, "store", "",
					"`FOLDER` where the server keeps jobs and units")
				cli.PlaceVar(s, &cert, cli.OnThisMachine, "tls-cert", "", "`FILE` the server's certificate, in PEM")
				cli.PlaceVar(s, &key, cli.OnThisMachine, "tls-key", "", "`FILE` key of the server's certificate")
				cli.PlaceVar(s, &ca, cli.OnThisMachine, "tls-ca", "",
					"`FILE` CA certificates; clients need a certificate signed by one of them")
			})
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			switch {
			case store == "":
				return cli.Usagef("nats: --store is missing: a folder for what the server keeps")
			case len(args) > 0:
				return cli.Usagef("nats takes no arguments, but was given %q", args)
			}
			cli.EndWithParent(env)
			s, err := local.Start(local.Options{
				Address: listen, Dir: store, User: os.Getenv(NatsUser), Password: os.Getenv(NatsPassword), Cert: cert,
				Key: key, CA: ca,
			})
			if errors.Is(err, local.ErrOpen) {
				return cli.Usagef("nats: --listen %w: $%s and $%s", err, NatsUser, NatsPassword)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(env.Stdout, "%s%s\n", crew.Listening, s.Address())
			<-ctx.Done()
			s.Stop()
			return nil
		},
	}
}
