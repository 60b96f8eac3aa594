package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/quire/quire/data/storage/object"
)

// digestKey is the metadata key under which Put records the SHA-256 of the content.
const digestKey = "sha256"

// Put creates a file with all of body, which it reads from the start more than once. The file appears completely or
// not at all. If Put has already written a file with that name and content, nothing happens, so a writer that died
// after its last byte can be repeated. If there is a file with different content, errors.Is(err, fs.ErrExist) holds,
// and the file is left alone.
func Put(ctx context.Context, name string, body io.ReadSeeker) error {
	l, err := parse(name)
	if err != nil {
		return failed("write", name, err)
	}
	size, digest, err := measure(body)
	if err != nil {
		return failed("write", name, err)
	}
	if l.scheme == "" {
		return failed("write", name, pathless(putLocal(l.key, body, digest)))
	}
	if l.key == "" || strings.HasSuffix(l.key, "/") {
		return failed("write", name, errors.New("it is a folder, not an object"))
	}
	bucket, err := l.open(ctx)
	if err != nil {
		return failed("write", name, err)
	}
	// Look first, too, because some servers do not support conditional writes.
	if there, err := sameObject(ctx, bucket, l.key, size, digest); there || err != nil {
		return failed("write", name, err)
	}
	err = again(ctx, func(a attempt) error { return send(a, bucket, l.key, body, digest) })
	if object.CodeOf(err) == object.Precondition || status(err) == http.StatusConflict {
		// Another writer was faster, or an earlier try succeeded and its answer was lost.
		there, lookErr := sameObject(ctx, bucket, l.key, size, digest)
		if lookErr != nil {
			err = lookErr
		} else if there {
			err = nil
		}
	}
	if err != nil {
		return failed("write", name, reason(err))
	}
	there, err := sameObject(ctx, bucket, l.key, size, digest)
	if err == nil && !there {
		err = errors.New("the server accepted it, but does not have it")
	}
	return failed("write", name, err)
}

var errExists = &as{target: fs.ErrExist, reason: fs.ErrExist, text: "there is a file of that name with other content"}

// sameObject reports whether the object exists with exactly this content. Different content is an error.
func sameObject(ctx context.Context, bucket object.Bucket, key string, size int64, digest string) (bool, error) {
	var attrs object.Attributes
	err := again(ctx, func(a attempt) (err error) {
		attrs, err = bucket.Attributes(a.ctx, key)
		return err
	})
	if object.CodeOf(err) == object.NotFound {
		return false, nil
	}
	if err != nil {
		return false, reason(err)
	}
	if attrs.Size != size || attrs.Metadata[digestKey] != digest {
		return false, errExists
	}
	return true, nil
}

// send writes an object if there is none with its name.
func send(a attempt, bucket object.Bucket, key string, body io.ReadSeeker, digest string) error {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(a.ctx) // if body fails, cancelling keeps the object from being created
	defer cancel()
	r := &watchedReader{r: body, progress: a.progress, failed: cancel}
	err := bucket.Create(ctx, key, r, map[string]string{digestKey: digest})
	if bodyErr := r.failure.Load(); bodyErr != nil {
		return bodyErr
	}
	return err
}

type watchedReader struct {
	r        io.Reader
	progress func()
	failed   func()
	failure  atomic.Pointer[localError]
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.progress()
	}
	if err != nil && err != io.EOF {
		w.failure.Store(&localError{err})
		w.failed()
	}
	return n, err
}

// measure reads all of body.
func measure(body io.ReadSeeker) (size int64, digest string, err error) {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return 0, "", err
	}
	h := sha256.New()
	size, err = io.Copy(h, body)
	return size, hex.EncodeToString(h.Sum(nil)), err
}

// putLocal writes a local file under a temporary name, and links it to its final name when it is on disk.
func putLocal(path string, body io.ReadSeeker, digest string) error {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, body)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err == nil {
		return syncFolder(filepath.Dir(path))
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, err := os.Open(path)
	if err != nil {
		return err
	}
	defer there.Close()
	if _, found, err := measure(there); err != nil || found != digest {
		return errors.Join(errExists, err)
	}
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Remove removes a file. It is not an error if the file does not exist.
func Remove(ctx context.Context, name string) error {
	l, err := parse(name)
	if err != nil {
		return failed("remove", name, err)
	}
	if l.scheme == "" {
		if err := os.Remove(l.key); !errors.Is(err, fs.ErrNotExist) {
			return failed("remove", name, pathless(err))
		}
		return nil
	}
	bucket, err := l.open(ctx)
	if err != nil {
		return failed("remove", name, err)
	}
	err = again(ctx, func(a attempt) error { return bucket.Delete(a.ctx, l.key) })
	if object.CodeOf(err) == object.NotFound {
		err = nil
	}
	return failed("remove", name, reason(err))
}
