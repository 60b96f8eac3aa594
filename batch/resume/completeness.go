package resume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/internal/plural"
)

// Completeness is how much of a job is there.
type Completeness struct {
	Parts   folder.Parts
	Missing []int
	shards  int // shards that worked on it; 0 for none
}

func (s Completeness) String() string {
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

// completeness looks how much of the whole job is there now.
func (s *Saved) completeness() (Completeness, error) {
	out, err := promptset.OpenOutput(s.folder)
	if err != nil {
		return Completeness{}, err
	}
	missing := out.Missing(s.Parts, s.format)
	if job := s.State.Job(); job != nil {
		missing, err = missingParts(job, s.State.Parts, out, s.folder)
	}
	return Completeness{s.Parts, missing, s.Shard.Count}, err
}

// CompletenessOf looks how much of the job is there whose output folder that is. Its work folder has the state. ok is
// false if it isn't known.
func CompletenessOf(ctx context.Context, files vfs.FS, output, work string) (all Completeness, ok bool) {
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
	if all.Parts, _, ok = spec.PartsOf(job); !ok {
		return all, false
	}
	all.Missing, err = missingParts(job, func(each func([]byte)) error {
		_, err := jobstate.Parts(files, work, each)
		return err
	}, out, place)
	if err != nil {
		return all, false
	}
	for i, shard := range shards {
		if i > 0 && shard.Count != all.shards {
			all.shards = 0 // with several counts, none shows whose the missing parts are
			break
		}
		all.shards = shard.Count
	}
	return all, true
}

// missingParts lists the parts of a job that are not there, or are there as before a change of the job.
func missingParts(job *jobstate.Description, noted func(each func([]byte)) error, out *promptset.Output,
	place folder.Published) ([]int, error) {
	parts, format, _ := spec.PartsOf(job)
	missing := out.Missing(parts, format)
	if len(job.Changes) == 0 {
		return missing, nil
	}
	notes, err := readNotes(noted)
	if err != nil {
		return nil, err
	}
	stale, err := StaleParts(job, notes, out, place)
	missing = slices.AppendSeq(missing, maps.Keys(stale))
	slices.Sort(missing)
	return missing, err
}

// ShardCompleteness is how the whole job stands after a shard's work; nil if it is not known or this is the whole
// job.
func (s *Saved) ShardCompleteness() *Completeness {
	if s.Shard.Whole() {
		return nil
	}
	all, err := s.completeness()
	if err != nil {
		return nil
	}
	return &all
}
