package stopping_test

import (
	"regexp"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/stopping"
)

// Within the loop of a call nothing copies the tables.
func TestWalkCopiesNoTables(t *testing.T) {
	view := testenv.XLA(t).Donating(nil).(*xla.View)
	exec, err := NewExec(view, func(table, bytes, starts *Node) *Node {
		g := table.Graph()
		type loop struct{ I, States *Node }
		l := loop{Scalar(g, dtypes.Int32, 0), Zeros(g, shapes.Make(dtypes.Int32, 16, stopping.Lanes))}
		goesOn := func(l loop) *Node { return LessThan(l.I, Scalar(g, dtypes.Int32, 10)) }
		l = control.While(l, goesOn, func(l loop) loop {
			after, _ := stopping.Walk(stopping.Tables{Next: table, Bytes: bytes, Starts: starts}, l.States,
				BroadcastToDims(l.I, 16))
			return loop{AddScalar(l.I, 1), after}
		})
		return l.States
	})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Finalize()
	table := make([][]int32, 77)
	for i := range table {
		table[i] = make([]int32, stopping.Width)
	}
	if _, err := exec.Exec(table, make([]int32, 3333), make([]int32, 1112)); err != nil {
		t.Fatal(err)
	}
	hlo, err := view.Executables()[0].OptimizedHLO()
	if err != nil {
		t.Fatal(err)
	}
	copies := regexp.MustCompile(`.*s32\[(77,256|19712|3333|1112)\]\S* copy\(.*`)
	if found := copies.FindAllString(hlo, -1); found != nil {
		t.Errorf("%q", found)
	}
}
