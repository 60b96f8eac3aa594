package storage

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestHopeless: errors that a retry cannot fix are returned at once, with what to do.
func TestHopeless(t *testing.T) {
	stall := patience.stall
	patience.stall = time.Minute // AWS's library has pauses of its own
	defer func() { patience.stall = stall }()
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	var asked atomic.Int64
	answer := func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	open := httptest.NewServer(http.HandlerFunc(answer))
	defer open.Close()
	strange := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	strange.Config.ErrorLog = nil
	strange.StartTLS()
	defer strange.Close()
	parameters := "&use_path_style=true&hostname_immutable=true"
	for _, c := range []struct {
		name, url, problem string
		environment        map[string]string
	}{
		{"region", "s3://region/k", "Invalid region", map[string]string{"AWS_REGION": ""}},
		{"certificate", "s3://certificate/k?region=us-east-1&endpoint=" + strange.URL + parameters,
			"the server's certificate is not trusted", nil},
		{"plain", "s3://plain/k?region=us-east-1&endpoint=" + strings.Replace(open.URL, "http:", "https:", 1) +
			parameters, "certificate", nil},
		{"credentials", "s3://credentials/k?region=us-east-1&endpoint=" + open.URL + parameters,
			"give the region and credentials", map[string]string{
				"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_CONFIG_FILE": "/none",
				"AWS_SHARED_CREDENTIALS_FILE": "/none", "AWS_EC2_METADATA_DISABLED": "true",
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bucketsForgotten(t)
			for name, value := range c.environment {
				t.Setenv(name, value)
			}
			before := asked.Load()
			_, err := Open(t.Context(), c.url)
			if err == nil || !strings.Contains(err.Error(), c.problem) ||
				strings.Contains(err.Error(), "given up after") {
				t.Error(err)
			}
			if n := asked.Load() - before; n > 0 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestNoBucket names the bucket as what is missing, after one request.
func TestNoBucket(t *testing.T) {
	p := fakeS3(t)
	other := strings.Replace(p.url("x"), "s3://", "s3://none", 1)
	for _, list := range []func() error{
		func() error { _, err := List(t.Context(), other); return err },
		func() error { return Put(t.Context(), other, strings.NewReader("x")) },
	} {
		p.set(nil)
		err := list()
		if n, _ := p.counts(); err == nil || !strings.Contains(err.Error(), "there is no such bucket") || n > 2 {
			t.Errorf("%v after %d requests", err, n)
		}
	}
}
