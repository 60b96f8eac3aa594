package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/quire/quire/internal/visible"
)

// endpoint answers calls by HTTP.
type endpoint struct {
	tool   *Tool
	client *http.Client
}

func newEndpoint(t *Tool) *endpoint {
	dialer := &net.Dialer{}
	if !t.Remote {
		// The address is checked, and not the name: what a name stands for may change.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			host, _, err := net.SplitHostPort(address)
			if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
				return fmt.Errorf("%s is not of this machine", address)
			}
			return nil
		}
	}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: t.Parallel}
	return &endpoint{t, &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (e *endpoint) Ask(ctx context.Context, question []byte) ([]byte, error) {
	limit := time.Duration(e.tool.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.tool.URL, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	// A request with a body that can be read again may be sent twice when its connection breaks.
	request.GetBody = nil
	request.Header.Set("Content-Type", "application/json")
	response, err := e.client.Do(request)
	if err == nil {
		defer response.Body.Close()
		var body []byte
		if body, err = io.ReadAll(io.LimitReader(response.Body, int64(e.tool.MaxOutput)+1)); err == nil {
			return e.answer(response, body)
		}
	}
	if context.Cause(ctx) == errLate {
		return nil, fmt.Errorf("gave no answer within %s", limit)
	}
	return nil, fmt.Errorf("can't be reached: %w", err)
}

var errLate = errors.New("the time is over")

func (e *endpoint) answer(r *http.Response, body []byte) ([]byte, error) {
	switch {
	case r.StatusCode/100 != 2:
		return nil, fmt.Errorf("answered with status %d: %s", r.StatusCode,
			visible.Cut(strings.Join(strings.Fields(string(body)), " ")))
	case len(body) > int(e.tool.MaxOutput):
		return nil, fmt.Errorf("wrote more than %d bytes", e.tool.MaxOutput)
	}
	return body, nil
}

func (e *endpoint) Close() error {
	e.client.CloseIdleConnections()
	return nil
}
