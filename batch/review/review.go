// Package review reads the output of a job back: its rows, statistics of them, how two outputs differ, and what the
// HTML page of a run shows: how the output was made, the time series of its processes, and its completions.
package review

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/observe"
	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/data/vfs"
)

// processes reads the time series of runs of the whole job, of shards and of workers, in order of time.
func processes(files vfs.FS, state string) (all []telemetry.Process, err error) {
	shards, err := jobstate.Shards(files, state)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	run, workers := observe.TimeSeries(state)
	names := map[string]string{run: ""}
	for _, shard := range shards {
		series, _ := observe.TimeSeries(filepath.Join(state, shard.Name()))
		names[series] = "shard " + shard.Name()
	}
	maps.Copy(names, workers)
	for path, name := range names {
		some, err := telemetry.Read(path)
		for i := range some {
			some[i].Name = name
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b telemetry.Process) int {
		return cmp.Or(a.Start.Time.Compare(b.Start.Time), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}
