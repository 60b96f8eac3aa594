package jobflags

import (
	"strings"
	"testing"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
)

func TestParallelFlags(t *testing.T) {
	for _, c := range []struct {
		tp, dp        int
		mesh, backend string
		wantTP        int
		wantDP        int
		fails         string
	}{
		{1, 1, "", "xla:cpu", 1, 1, ""},
		{4, 2, "", "xla:cpu", 4, 2, ""},
		{1, 1, "tp=4,dp=2", "xla:tpu", 4, 2, ""},
		{1, 1, "dp=3", "xla:cuda", 1, 3, ""},
		{4, 1, "tp=4", "xla:cpu", 4, 1, ""},
		{2, 1, "tp=4", "xla:cpu", 0, 0, `--mesh is "tp=4", but --tp is 2`},
		{1, 1, "tp=4,tp=4", "xla:cpu", 0, 0, "each once"},
		{1, 1, "pp=4", "xla:cpu", 0, 0, "such as tp=4,dp=2"},
		{1, 1, "tp", "xla:cpu", 0, 0, "such as tp=4,dp=2"},
		{1, 1, "tp=0", "xla:cpu", 0, 0, "such as tp=4,dp=2"},
		{0, 1, "", "xla:cpu", 0, 0, "--tp is 0"},
		{1, -1, "", "xla:cpu", 0, 0, "--dp is -1"},
		{2, 1, "", "go", 0, 0, "--backend go has one"},
	} {
		p := spec.Default().Engine
		p.TP, p.DP, p.Backend = c.tp, c.dp, c.backend
		check := func() error {
			if err := parseMesh(c.mesh, &p); err != nil {
				return err
			}
			return p.Validate()
		}
		err := check()
		if again := check(); (err == nil) != (again == nil) {
			t.Errorf("%+v: checked twice: %v, then %v", c, err, again)
		}
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(cli.Message(err), c.fails) {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || p.TP != c.wantTP || p.DP != c.wantDP:
			t.Errorf("%+v: %d, %d, %v", c, p.TP, p.DP, err)
		}
	}
}
