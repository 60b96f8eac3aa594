package queue

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quire/quire/batch/queue/local"
)

// authority signs certificates for this machine.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{dir: t.TempDir()}
	a.file, _ = a.sign(t, "ca", true)
	return a
}

// sign writes NAME.pem and NAME.key.
func (a *authority) sign(t *testing.T, name string, ca bool) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: ca, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if ca {
		a.cert, a.key = c, k
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	serverCert, serverKey := a.sign(t, "server", false)
	cert, key := a.sign(t, "client", false)
	server := newServer(t, local.Options{Cert: serverCert, Key: serverKey, CA: a.file})
	good := Options{URL: "tls://" + server.Address(), CA: a.file, Cert: cert, Key: key,
		Patience: 300 * time.Millisecond}
	q, err := Connect(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	q.Close()
	for name, change := range map[string]func(o *Options){
		"no certificate":         func(o *Options) { o.Cert, o.Key = "", "" },
		"another authority":      func(o *Options) { o.CA = other.file },
		"another's certificate":  func(o *Options) { o.Cert, o.Key = other.sign(t, "client", false) },
		"the system's authority": func(o *Options) { o.CA = "" },
		"no key":                 func(o *Options) { o.Key = "" },
	} {
		o := good
		change(&o)
		if q, err := Connect(t.Context(), o); err == nil {
			q.Close()
			t.Errorf("%s: connected", name)
		}
	}
}

func TestPassword(t *testing.T) {
	const secret = "hunter2-and-more"
	server := newServer(t, local.Options{User: "quire", Password: secret})
	q, err := Connect(t.Context(), Options{URL: "nats://" + server.Address(), User: "quire", Password: secret})
	if err != nil {
		t.Fatal(err)
	}
	q.Close()
	for _, o := range []Options{
		{URL: "nats://" + server.Address(), User: "quire", Password: secret + "x"},
		{URL: "nats://quire:" + secret + "x@" + server.Address()},
		{URL: "nats://quire:" + secret + "@no such host:x"},
		{URL: "nats://" + server.Address()},
		{URL: "nats://" + server.Address(), Credentials: "testdata/no-such-file"},
	} {
		o.Patience = 200 * time.Millisecond
		q, err := Connect(t.Context(), o)
		if err == nil {
			q.Close()
			t.Errorf("%+v: connected", o)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestHideSecrets(t *testing.T) {
	for url, want := range map[string]string{
		"nats://a:4222":                      "nats://a:4222",
		"nats://u:p@a:4222,tls://token@b:1":  "nats://a:4222,tls://b:1",
		"u:p@ss@a":                           "a",
		"nats://u:%3A//x@a:1, nats://u:p@b:": "nats://a:1, nats://b:",
	} {
		if got := strings.ReplaceAll(HideSecrets(url), ",nats", ", nats"); strings.ReplaceAll(got, ", ",
			",") != strings.ReplaceAll(want, ", ", ",") {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// Nobody gets a server that the whole network reaches by mistake.
func TestLoopbackOnly(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "10.0.0.1:0"} {
		if s, err := local.Start(local.Options{Address: address, Dir: t.TempDir()}); !errors.Is(err, local.ErrOpen) {
			if err == nil {
				s.Stop()
			}
			t.Errorf("%s: %v", address, err)
		}
	}
	s := newServer(t, local.Options{Address: ":0"})
	if host, _, _ := net.SplitHostPort(s.Address()); host != "127.0.0.1" {
		t.Errorf("without a host it listens at %s", s.Address())
	}
}
