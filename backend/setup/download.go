package setup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const (
	downloadTries = 5                // consecutive tries without a new byte
	stallTimeout  = 60 * time.Second // a try ends after so long without a byte
	reportEvery   = 200 * time.Millisecond
)

// newClient returns a client with the standard proxy settings. It limits every silence, but not the duration of a
// download.
func newClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 20 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	t.ResponseHeaderTimeout = stallTimeout
	return &http.Client{Transport: t}
}

// download downloads url to dir/name and checks its digest. It continues dir/name.partial after an interrupted run,
// and tries again while the server still returns new bytes.
func (in *installer) download(ctx context.Context, item, url, dir, name, wantSHA string) (string, error) {
	final := filepath.Join(dir, name)
	partial := final + ".partial"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	resumed := false
	for idle := 0; ; {
		before := sizeOf(partial)
		resumed = resumed || before > 0
		err := in.continueDownload(ctx, item, url, partial)
		if err == nil {
			in.progress.report(Step{Item: item, Stage: Verifying, File: name})
			err = checkDigest(partial, wantSHA)
			if err == nil {
				break
			}
			var digest *DigestError
			if !errors.As(err, &digest) {
				return "", err
			}
			os.Remove(partial)
			if !resumed {
				digest.File = name + " as downloaded"
				return "", digest
			}
			resumed = false // the earlier part may be bad: start over once
			continue
		}
		var status *statusError
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if errors.As(err, &status) && !status.temporary() {
			return "", err
		}
		if idle++; sizeOf(partial) > before {
			idle = 1
		}
		if idle >= downloadTries {
			return "", fmt.Errorf("%w (%d tries; the next run resumes from %s)",
				err, idle, partial)
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(in.backoff << (idle - 1)):
		}
	}
	return final, os.Rename(partial, final)
}

// statusError is an unexpected HTTP status.
type statusError struct {
	code   int
	status string
}

func (e *statusError) Error() string   { return "the server answered " + e.status }
func (e *statusError) temporary() bool { return e.code == 429 || e.code >= 500 }

// continueDownload appends to the file partial what is missing.
func (in *installer) continueDownload(ctx context.Context, item, url, partial string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "identity") // offsets refer to the file itself
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := in.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusPartialContent:
		var start int64
		if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-", &start); err != nil || start != have {
			return fmt.Errorf("the server was asked for bytes from %d on, but answered with %q", have,
				resp.Header.Get("Content-Range"))
		}
	case http.StatusOK: // the whole file, although a range was requested
		if have, err = 0, f.Truncate(0); err != nil {
			return err
		}
		if _, err = f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	// Nothing is missing, or the part belongs to a different file: the digest decides.
	case http.StatusRequestedRangeNotSatisfiable:
		return nil
	default:
		return &statusError{resp.StatusCode, resp.Status}
	}
	total := int64(0)
	if resp.ContentLength > 0 {
		total = have + resp.ContentLength
	}
	stall := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("no data for %v", stallTimeout)) })
	defer stall.Stop()
	buf := make([]byte, 256<<10)
	for last := (time.Time{}); ; {
		n, readErr := resp.Body.Read(buf)
		if n > 0 {
			stall.Reset(stallTimeout)
			if _, err := f.Write(buf[:n]); err != nil {
				return err
			}
			have += int64(n)
		}
		if now := time.Now(); readErr != nil || now.Sub(last) >= reportEvery {
			last = now
			in.progress.report(Step{Item: item, Stage: Downloading, File: filepath.Base(url), Done: have, Total: total})
		}
		if readErr == io.EOF {
			return f.Sync()
		}
		if readErr != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return readErr
		}
	}
}

// checkDigest returns a [*DigestError] if the file's SHA-256 is not want.
func checkDigest(path, want string) error {
	digest, err := fileDigest(path)
	if err != nil {
		return err
	}
	if digest != want {
		return &DigestError{File: path, Want: want, Got: digest}
	}
	return nil
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func sizeOf(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}
