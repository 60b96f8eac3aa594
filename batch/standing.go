package batch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/promptset/folder"
	"github.com/quire/quire/storage"
	"github.com/quire/quire/vfs"
)

// shardText is a shard in reports; that of the whole job is empty.
func shardText(shard jobstate.Shard) string {
	if shard.Whole() {
		return ""
	}
	return shard.String()
}

// Standing is how much of a job is there.
type Standing struct {
	Parts   folder.Parts
	Missing []int
	shards  int // that worked on it; 0 for none
}

func (s Standing) String() string {
	if len(s.Missing) == 0 {
		return plural.Of(s.Parts.Count(), "the one part of the job is there",
			fmt.Sprintf("all %d parts of the job are there", s.Parts.Count()))
	}
	text := fmt.Sprintf("%d of %d parts of the job are there", s.Parts.Count()-len(s.Missing), s.Parts.Count())
	if s.shards < 2 {
		return text
	}
	var lacking []string
	for i := range s.shards {
		shard := jobstate.Shard{Index: i, Count: s.shards}
		if slices.ContainsFunc(s.Missing, shard.Has) {
			lacking = append(lacking, shard.String())
		}
	}
	const most = 10
	if more := len(lacking) - most; more > 0 {
		lacking = append(lacking[:most], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s; some are missing of shards %s", text, strings.Join(lacking, ", "))
}

// standing looks how much of the whole job is there now.
func (s *savedJob) standing() (Standing, error) {
	out, err := promptset.OpenOutput(s.folder)
	if err != nil {
		return Standing{}, err
	}
	missing := out.Missing(s.parts, s.format)
	if job := s.state.Job(); job != nil {
		missing, err = missingOf(job, s.state.Parts, out, s.folder)
	}
	return Standing{s.parts, missing, s.shard.Count}, err
}

// StandingOf looks how much of the job is there whose output folder that is. Its work folder has the state. ok is false
// where it isn't known.
func StandingOf(ctx context.Context, files vfs.FS, output, work string) (all Standing, ok bool) {
	var job *jobstate.Description
	var shards []jobstate.Shard
	var err error
	if storage.IsRemote(output) {
		job, err = jobstate.ReadShared(ctx, output)
	} else {
		job, err = jobstate.Read(files, work)
	}
	if job == nil || err != nil {
		return all, false
	}
	place := folder.OpenToRead(ctx, files, output)
	out, err := promptset.OpenOutput(place)
	if err != nil {
		return all, false
	}
	// Of a job in an object store this machine knows what ran here.
	if shards, err = jobstate.Shards(files, filepath.Join(work, jobstate.Folder)); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return all, false
	}
	if all.Parts, _, ok = PartsOf(job); !ok {
		return all, false
	}
	all.Missing, err = missingOf(job, func(each func([]byte)) error {
		_, err := jobstate.Parts(files, work, each)
		return err
	}, out, place)
	if err != nil {
		return all, false
	}
	for i, shard := range shards {
		if i > 0 && shard.Count != all.shards {
			all.shards = 0 // of several counts none says whose the missing parts are
			break
		}
		all.shards = shard.Count
	}
	return all, true
}

// missingOf lists the parts of a job that are not there, or are there as before a change of the job.
func missingOf(job *jobstate.Description, noted func(each func([]byte)) error, out *promptset.Output,
	place folder.Published) ([]int, error) {
	parts, format, _ := PartsOf(job)
	missing := out.Missing(parts, format)
	if len(job.Changes) == 0 {
		return missing, nil
	}
	notes, err := notesIn(noted)
	if err != nil {
		return nil, err
	}
	stale, err := StaleParts(job, notes, out, place)
	missing = slices.AppendSeq(missing, maps.Keys(stale))
	slices.Sort(missing)
	return missing, err
}

// BegunJob reads what job an output folder has; nil is none.
func BegunJob(ctx context.Context, output string) (*jobstate.Description, error) {
	if storage.IsRemote(output) {
		return jobstate.ReadShared(ctx, output)
	}
	path := filepath.Join(output, jobstate.Folder, "job.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := jobstate.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return d, nil
}

// standingOfShard is how the whole job stands after a shard's work; nil where it is not known or this is the whole job.
func (s *savedJob) standingOfShard() *Standing {
	if s.shard.Whole() {
		return nil
	}
	all, err := s.standing()
	if err != nil {
		return nil
	}
	return &all
}
