package jobflags

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// What is secret does not come into the log, whoever logs it.
func TestLogHasNoSecrets(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		o := Observing{LogFormat: format, LogLevel: "debug"}
		log := slog.New(o.handler(&out, false))
		log.Info("fetching", "url", "https://user:SECRET@h/p?sig=SECRET", "nats", "nats://u:SECRET@h:4222")
		log.Warn("failed", "err", fmt.Errorf("Get %q: no route", "https://h/p?X-Amz-Signature=SECRET&token=SECRET"))
		log.With("url", "s3://b/k?token=SECRET").Error("x", slog.Group("g", "header", "Authorization: Bearer SECRET"))
		if strings.Contains(out.String(), "SECRET") || !strings.Contains(out.String(), "nats://h:4222") {
			t.Error(out.String())
		}
	}
}
