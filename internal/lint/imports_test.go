package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// heavy are modules that would be a large part of what a build compiles, and that nothing here needs.
var heavy = []string{"google.golang.org/grpc", "go.opentelemetry.io/otel", "cloud.google.com/go/storage",
	"gocloud.dev"}

// No package of a heavy module is a dependency of sample or of a test: go.mod names each module that has one.
func TestNoHeavyDependencies(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range heavy {
		if strings.Contains(string(text), "\t"+h+" v") || strings.Contains(string(text), "\t"+h+"/") {
			t.Errorf("%s is a dependency; go mod why -m %s says of what, and docs/dependencies.md what it costs", h, h)
		}
	}
}
