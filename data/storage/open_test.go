package storage

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/quire/quire/data/storage/object"
)

// Every parameter of a bucket's URL is taken or refused when the bucket is opened, before any request.
func TestParameters(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", "/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/none")
	bucketsForgotten(t)
	for name, problem := range map[string]string{
		"s3://b?region=eu-central-1&endpoint=http://127.0.0.1:9/x&use_path_style=true&hostname_immutable=true": "",
		"s3://b?s3ForcePathStyle=true&anonymous=true&dualstack=true&fips=false&accelerate=false":               "",
		"s3://b?ssetype=aws:KMS&kmskeyid=k&rate_limiter_capacity=5&disable_https=true&awssdk=v2":               "",
		"s3://b?request_checksum_calculation=when_required&response_checksum_validation=When_Supported":        "",
		"s3://b?role=arn:aws:iam::1:role/r": "",

		"s3://b?ssetype=des":                  `ssetype is "des", but must be one of AES256, `,
		"s3://b?use_path_style=please":        `use_path_style is "please", but must be true or false`,
		"s3://b?rate_limiter_capacity=-1":     `rate_limiter_capacity is "-1", but must be a number`,
		"s3://b?region=a&region=b":            "region is given twice",
		"s3://b?role=me":                      "role is not an ARN",
		"s3://b?profile=nobody":               "nobody",
		"s3://b?regoin=x":                     `unknown query parameter "regoin"; known are accelerate, anonymous, `,
		"azblob://b?storage_account=a":        "",
		"azblob://b?domain=h&protocol=http":   "",
		"azblob://b?cdn=true&localemu=false":  "",
		"azblob://b?protocol=ftp":             `is "ftp", but must be http or https`,
		"azblob://b?cdn=perhaps":              `cdn is "perhaps", but must be true or false`,
		"azblob://b?region=x":                 `unknown query parameter "region"`,
		"gs://b?anonymous=true":               "",
		"gs://b?access_id=-":                  "",
		"gs://b":                              "run gcloud auth application-default login",
		"gs://b?anonymous=true&grpc=true":     `unknown query parameter "grpc"; known are access_id, anonymous, `,
		"gs://b?access_id=me":                 `access_id is "me", but must be one of -`,
		"gs://b?universe_domain=u&anonymous=": "run gcloud auth application-default login",
	} {
		l, err := parse(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.open(t.Context())
		if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A URL can't send the environment's token of Azure to another server.
func TestTokenStaysAtItsServer(t *testing.T) {
	t.Setenv("AZURE_STORAGE_KEY", "")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=2020&sig=SECRET")
	bucketsForgotten(t)
	for name, ok := range map[string]bool{"azblob://b": true, "azblob://b?domain=evil.example": false,
		"azblob://b?storage_account=other": false, "azblob://b?protocol=http": false} {
		l, _ := parse(name)
		_, err := l.open(t.Context())
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "a different server") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server at an endpoint needs no region.
func TestEndpointWithoutRegion(t *testing.T) {
	p := fakeS3(t)
	t.Setenv("AWS_REGION", "")
	p.raw(t, "x", noise(10))
	for _, style := range []string{"use_path_style", "hostname_immutable"} {
		endpoint, _, _ := strings.Cut(p.url("x"), "&")
		if info, err := Stat(t.Context(), endpoint+"&"+style+"=true"); err != nil || info.Size != 10 {
			t.Error(style, info, err)
		}
	}
}

// When a part of a large upload to Google fails, or its answer is lost, what did not arrive is sent again, and no more.
func TestGoogleUploadContinues(t *testing.T) {
	stall := patience.stall
	patience.stall = 10 * patience.stall // the client pauses
	defer func() { patience.stall = stall }()
	for _, fault := range []string{"503", "lost", "reset"} {
		for part := range 3 {
			p := fakeGCS(t)
			n, sent := 0, int64(0)
			p.set(func(r *http.Request) string {
				if r.Method != http.MethodPut || strings.HasPrefix(r.Header.Get("Content-Range"), "bytes */") {
					return ""
				}
				sent += r.ContentLength
				if n++; n == part+1 {
					return fault
				}
				return ""
			})
			data := noise(2*object.PartSize + 5)
			if err := Put(t.Context(), p.url("big"), bytes.NewReader(data)); err != nil {
				t.Fatalf("%s of part %d: %v\n%s", fault, part, err, strings.Join(p.log, "\n"))
			}
			if most := int64(len(data) + object.PartSize); sent > most {
				t.Errorf("%s of part %d: %d bytes were sent, want %d at most", fault, part, sent, most)
			}
			p.set(nil)
			if !bytes.Equal(content(t, p.url("big")), data) {
				t.Errorf("%s of part %d: the object is not what was put", fault, part)
			}
		}
	}
}

// An upload of as many bytes as some parts have ends with a request without any.
func TestGoogleUploadOfWholeParts(t *testing.T) {
	p := fakeGCS(t)
	data := noise(object.PartSize)
	if err := Put(t.Context(), p.url("even"), bytes.NewReader(data)); err != nil ||
		!bytes.Equal(content(t, p.url("even")), data) {
		t.Error(err)
	}
}

// An upload that the server lost is started again.
func TestGoogleUploadIsLost(t *testing.T) {
	p := fakeGCS(t)
	n := 0
	p.set(func(r *http.Request) string {
		if r.Method == http.MethodPut {
			if n++; n == 2 {
				return "404"
			}
		}
		return ""
	})
	data := noise(object.PartSize + 1)
	if err := Put(t.Context(), p.url("big"), bytes.NewReader(data)); err != nil ||
		!bytes.Equal(content(t, p.url("big")), data) {
		t.Error(err)
	}
}
