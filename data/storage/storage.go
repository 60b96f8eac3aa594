// Package storage reads and writes whole files: local paths, and objects of S3, Google Cloud Storage, Azure Blob
// Storage and the Hugging Face hub by URL.
//
// # Names
//
//	/path/to/file, file:///path/to/file
//	s3://BUCKET/KEY        credentials, region and endpoint from the environment and files that all AWS tools use
//	gs://BUCKET/KEY        application default credentials; STORAGE_EMULATOR_HOST for a local server
//	azblob://CONTAINER/KEY AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN
//	                         or the default credentials
//	hf://datasets/ORG/NAME[@REVISION]/PATH
//	                       files of datasets of the Hugging Face hub, to be read: see package hub
//	mem://BUCKET/KEY       objects in the memory of this process, for tests
//
// Keys are used as written, without escapes. Parameters may follow a key, such as
// s3://bucket/key?region=eu-central-1&endpoint=https://minio.local:9000&use_path_style=true; packages s3, gcs and azure
// list them at Open. A name without a scheme is a local path. Other schemes are errors.
//
// # Reading
//
// [Open] looks an object up once and pins its version. Later reads return those bytes, and fail with [ErrChanged] when
// the object is replaced. Ranges are read ahead within a limit. A read that breaks off, stalls, comes short or gets a
// server error is retried from where it stopped, with growing pauses.
//
// # Writing
//
// [Put] makes an object appear whole or not at all, and only if no object of that name exists.
package storage

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Error reports what this package cannot do with a file. errors.Is finds fs.ErrNotExist, fs.ErrExist,
// fs.ErrPermission or ErrChanged if that is the reason.
type Error struct {
	Op   string // "open", "read", "list", "write", "remove", "fetch"
	Name string // the file, as Redact returns it
	Err  error
}

// Error returns the file and the reason, without text that could contain credentials.
func (e *Error) Error() string {
	return fmt.Sprintf("cannot %s %s: %s", e.Op, e.Name, scrub(e.Err.Error()))
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Info describes a file.
type Info struct {
	Name    string // name for Open
	Size    int64
	ModTime time.Time
	ETag    string // changes with the content; "" for local files
	Folder  bool   // a local folder, or the common prefix of objects' keys; no other field is set then
}

// location is a parsed name.
type location struct {
	scheme string // "" for a local path
	bucket string
	key    string // or the path
	query  string // parameters of the bucket
}

var parameters = regexp.MustCompile(`\?[A-Za-z_]+=[^?]*$`)

// parse splits a name. A bucket without a key is allowed here, but not in Open.
func parse(name string) (location, error) {
	name, err := Resolve(name)
	if err != nil || !IsRemote(name) {
		return location{key: name}, err
	}
	var l location
	l.scheme, name, _ = strings.Cut(name, "://")
	if span := parameters.FindStringIndex(name); span != nil {
		name, l.query = name[:span[0]], name[span[0]+1:]
	}
	l.bucket, l.key, _ = strings.Cut(name, "/")
	if l.query == "" {
		l.query = hidden.query(l.scheme + "://" + l.bucket)
	}
	if strings.Contains(l.bucket, "@") {
		return location{},
			errors.New("credentials do not belong in a URL; give them by the provider's environment variables")
	}
	if l.bucket == "" {
		return location{}, fmt.Errorf("the URL names no bucket; write %s://BUCKET/KEY", l.scheme)
	}
	return l, nil
}

// String returns the location as a name for parse.
func (l location) String() string {
	if l.scheme == "" {
		return l.key
	}
	name := l.scheme + "://" + l.bucket + "/" + l.key
	if l.query != "" {
		name += "?" + l.query
	}
	return name
}

func (l location) withKey(key string) location {
	l.key = key
	return l
}

// hidden has the parameters that Hide removed from URLs, by scheme and bucket.
var hidden hiddenParameters

type hiddenParameters struct {
	sync.Mutex
	byBucket map[string]string
}

func (h *hiddenParameters) query(bucket string) string {
	h.Lock()
	defer h.Unlock()
	return h.byBucket[bucket]
}

// Hide returns a URL without its parameters, for display, logs and files. From then on, names of that bucket without
// parameters have these in this process. Hiding different parameters for the same bucket is an error. Other names are
// returned unchanged.
func Hide(name string) (string, error) {
	if !IsRemote(name) {
		return name, nil
	}
	l, err := parse(name)
	if err != nil {
		return "", failed("open", name, err)
	}
	if l.query == "" {
		return name, nil
	}
	hidden.Lock()
	defer hidden.Unlock()
	bucket := l.scheme + "://" + l.bucket
	if was, there := hidden.byBucket[bucket]; there && was != l.query {
		return "",
			failed("open", name,
				errors.New("URLs of one bucket have different parameters; use the same ones"))
	}
	if hidden.byBucket == nil {
		hidden.byBucket = map[string]string{}
	}
	hidden.byBucket[bucket] = l.query
	l.query = ""
	return l.String(), nil
}

// Join returns the name of a file below a folder, and keeps the folder's parameters.
func Join(folder, file string) string {
	if !IsRemote(folder) {
		return filepath.Join(Path(folder), filepath.FromSlash(file))
	}
	l, err := parse(folder)
	if err != nil {
		return folder + "/" + file
	}
	if l.key != "" && !strings.HasSuffix(l.key, "/") {
		l.key += "/"
	}
	return l.withKey(l.key + file).String()
}

// Path returns the path part of a name, for its extension and last element: a local path, or the key.
func Path(name string) string {
	if l, err := parse(name); err == nil {
		return l.key
	}
	return name
}

// Redact returns a name for display and logs: a URL without its user, password and parameters. Other names are
// returned unchanged.
func Redact(name string) string {
	if IsRemote(name) {
		if l, err := parse(name); err == nil {
			l.query = ""
			return l.String()
		}
	}
	scheme, rest, ok := strings.Cut(name, "://")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/ ") {
		return name
	}
	if u, err := url.Parse(name); err == nil {
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		return u.String()
	}
	authority, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		authority = authority[i+1:]
	}
	path, _, _ = strings.Cut(path, "?")
	return strings.TrimSuffix(scheme+"://"+authority+"/"+path, "/")
}

var (
	inURL       = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)
	secretPairs = regexp.MustCompile(
		`(?i)\b([\w.-]*(?:signature|sig|token|secret|password|passwd|credential|accesskey|access_key|apikey|` +
			`api_key|authorization)[\w.-]*)(=|:\s*)((?:bearer |basic |aws4-hmac-sha256 )?[^\s&"',;]+)`)
)

// scrub removes credentials from a text that may quote URLs and headers.
func scrub(text string) string {
	text = inURL.ReplaceAllStringFunc(text, Redact)
	return secretPairs.ReplaceAllString(text, "$1$2[redacted]")
}

// Scrub returns a text, such as another library's error, without the credentials in URLs and headers that it quotes.
func Scrub(text string) string { return scrub(text) }

// failed wraps an error about a file, unless it is wrapped already.
func failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var done *Error
	if errors.As(err, &done) {
		return err
	}
	return &Error{Op: op, Name: Redact(name), Err: err}
}
