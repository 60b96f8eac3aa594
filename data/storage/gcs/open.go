package gcs

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/quire/quire/data/storage/object"
)

const scope = "https://www.googleapis.com/auth/cloud-platform"

// Open returns a bucket. It uses the application default credentials, or none with the parameter anonymous=true. The
// parameter universe_domain is the domain of a different cloud that runs Google's software. STORAGE_EMULATOR_HOST is
// the address of a local server.
func Open(ctx context.Context, name string, p *object.Parameters) (object.Bucket, error) {
	b := &bucket{name: name, client: http.DefaultClient}
	anonymous := p.Bool("anonymous")
	anonymous = p.Choice("access_id", "-") != "" || anonymous // as in URLs of Go CDK
	universe := p.String("universe_domain")
	if err := p.Err(); err != nil {
		return nil, err
	}
	if host := os.Getenv("STORAGE_EMULATOR_HOST"); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		b.server = strings.TrimSuffix(host, "/")
		return b, nil
	}
	if !anonymous {
		found, err := google.FindDefaultCredentialsWithParams(ctx,
			google.CredentialsParams{Scopes: []string{scope}, UniverseDomain: universe})
		if err != nil {
			return nil, fmt.Errorf("there are no credentials of Google Cloud; run gcloud auth application-default "+
				"login, set GOOGLE_APPLICATION_CREDENTIALS, or add ?anonymous=true for a public bucket (%w)", err)
		}
		if universe == "" {
			universe, _ = found.GetUniverseDomain() // a machine that does not know its domain is in Google's cloud
		}
		b.client = oauth2.NewClient(ctx, found.TokenSource)
	}
	if universe == "" {
		universe = "googleapis.com"
	}
	b.server = "https://storage." + universe
	return b, nil
}
