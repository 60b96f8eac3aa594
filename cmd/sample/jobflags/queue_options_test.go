package jobflags

import (
	"testing"

	"github.com/quire/quire/batch/queue"
)

func TestInTheOpen(t *testing.T) {
	for url, open := range map[string]bool{
		"nats://u:p@example.com:4222": true, "tls://u:p@example.com:4222": false, "nats://example.com:4222": false,
		"nats://u:p@127.0.0.1:4222": false,
		"nats://u:p@localhost:4222": false, "tls://a:1,nats://u:p@b:2": true,
	} {
		if _, got := inTheOpen(queue.Options{URL: url}); got != open {
			t.Errorf("%s: %v", url, got)
		}
	}
	server, open := inTheOpen(queue.Options{URL: "nats://example.com:4222", User: "u", Password: "p"})
	if !open || server != "example.com:4222" {
		t.Error(server, open)
	}
}
