// Package local runs a NATS server inside this process: for jobs whose workers are all on one machine, and for trying a
// queue without a server.
package local

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Options set the server's address and what it keeps.
type Options struct {
	// Address is HOST:PORT; without a host it is this machine's loopback, and port 0 is a free one. Others than
	// loopback need a user.
	Address string
	// Dir is the folder of the streams.
	Dir            string
	User, Password string // nobody else may connect, if set
	// Cert and Key are PEM files of the server's certificate; with CA clients need one that it signed.
	Cert, Key, CA string
}

// maxPayload is the longest message, for descriptions of jobs of very many files.
const maxPayload = 8 << 20

// ErrOpen reports that an address would be open to everybody.
var ErrOpen = errors.New("an address that other machines can reach needs a user and a password")

// readyWithin is how long a server may take to start.
const readyWithin = 30 * time.Second

// Server is a server that runs.
type Server struct {
	s       *server.Server
	address string
}

// Start starts a server. It continues with the state that an earlier one kept in the same folder, even if that was
// killed.
func Start(o Options) (*Server, error) {
	host, portText, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, fmt.Errorf("address %q is not HOST:PORT", o.Address)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("address %q is not HOST:PORT", o.Address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) &&
		(o.User == "" || o.Password == "") {
		return nil, fmt.Errorf("%s: %w", o.Address, ErrOpen)
	}
	options := &server.Options{
		ServerName: "quire", Host: host, Port: int(port), Username: o.User, Password: o.Password,
		JetStream: true, StoreDir: o.Dir, NoSigs: true, NoLog: true, MaxPayload: maxPayload,
		DisableJetStreamBanner: true,
	}
	if port == 0 {
		options.Port = server.RANDOM_PORT
	}
	if options.TLSConfig, err = o.tls(); err != nil {
		return nil, err
	}
	options.TLS = options.TLSConfig != nil
	options.TLSVerify = options.TLS && o.CA != ""
	s, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("cannot start the NATS server: %w", err)
	}
	go s.Start()
	if !s.ReadyForConnections(readyWithin) {
		s.Shutdown()
		return nil, fmt.Errorf("the NATS server was not ready at %s within %s: is the port free?", o.Address,
			readyWithin)
	}
	return &Server{s, s.Addr().String()}, nil
}

func (o Options) tls() (*tls.Config, error) {
	if o.Cert == "" && o.Key == "" && o.CA == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, fmt.Errorf("the server's certificate: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		text, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("the clients' CA: %w", err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the clients' CA: %s has no certificate", o.CA)
		}
	}
	return c, nil
}

// Address is the address that the server listens at.
func (s *Server) Address() string { return s.address }

// Stop ends the server in good order.
func (s *Server) Stop() {
	s.s.Shutdown()
	s.s.WaitForShutdown()
}
