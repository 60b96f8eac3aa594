package main

import (
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// metadataServer stands in for Google Compute Engine's: "metadata KEY FIRST [THEN]" has a value, which changes to THEN
// when somebody waits for a change.
func metadataServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: metadata KEY FIRST [THEN]")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value := args[1]
		switch waits := r.URL.Query().Get("wait_for_change") == "true"; {
		case r.Header.Get("Metadata-Flavor") != "Google":
			http.Error(w, "it is not meant for it", http.StatusForbidden)
			return
		case r.URL.Path != "/computeMetadata/v1/"+args[0]:
			http.NotFound(w, r)
			return
		case waits && (len(args) < 3 || r.URL.Query().Get("last_etag") == args[2]):
			<-r.Context().Done()
			return
		case waits:
			value = args[2]
		}
		w.Header().Set("ETag", value)
		_, _ = w.Write([]byte(value))
	}))
	ts.Defer(func() {
		server.CloseClientConnections()
		server.Close()
	})
	ts.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(server.URL, "http://"))
}
