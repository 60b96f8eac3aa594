package resume

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
)

// Open locks the output folder, or the shard's part of it, and finds what job is in it, which must be the one that
// was opened, or none. The job is settled as that one is. With New, what is there is removed.
func Open(ctx context.Context, p *process.Process, opened *prepare.Opened) (saved *Saved, err error) {
	s := &Saved{Process: p, Opened: opened, Job: opened.Job, FS: p.FS, Parts: opened.Parts, Shard: p.Shard,
		format: opened.Job.Format}
	work, err := p.WorkFolder(s.Job)
	if err != nil {
		return nil, err
	}
	if s.State, err = jobstate.OpenShard(p.FS, work, p.Shard); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.DropStandard(), s.State.Close())
		}
	}()
	if storage.IsRemote(s.Job.Output) {
		s.State.Share(ctx, s.Job.Output)
	}
	s.folder, err = folder.Open(ctx, p.FS, s.Job.Output, cmp.Or(p.Writer, p.Shard.Name()), s.State.Dir())
	if err != nil {
		return nil, err
	}
	if p.New {
		if err := errors.Join(s.folder.Clear(), s.clearKeys(), s.ClearJournals()); err != nil {
			return nil, err
		}
		if err := s.State.Clear(); err != nil {
			return nil, err
		}
	}
	names, err := s.folder.Names()
	if err != nil {
		return nil, err
	}
	// After the names: a part that another process published is not there before its job is.
	if err := s.State.Refresh(); err != nil {
		return nil, err
	}
	published := map[int]bool{}
	for _, name := range names {
		part, _, ok := folder.ParsePartName(name)
		if ok && p.Shard.Has(part) && (s.State.Job() == nil || s.Parts.Name(part, s.format) == name) {
			published[part] = true
		}
	}
	if s.State.Job() != nil {
		s.Resumed = true
		if err := s.checkSame(ctx); err != nil {
			return nil, err
		}
	} else if len(published) > 0 {
		return nil, setting.Errorf("%s: %w: %s", s.Job.Output, errUnknownParts, p.OutputRemedy())
	}
	if err := s.inspect(published); err != nil {
		return nil, err
	}
	if err := s.findStale(ctx, published); err != nil {
		return nil, err
	}
	for _, part := range s.Parts.All() {
		if !p.Shard.Has(part) {
			continue
		}
		from, to := s.Parts.Range(part)
		s.Rows += to - from
		s.PartCount++
		if !published[part] {
			s.Missing = append(s.Missing, part)
		}
	}
	return s, nil
}

// clearKeys removes the keys of a local output; in an object store they go with the rest of the job's state.
func (s *Saved) clearKeys() error {
	if storage.IsRemote(s.Job.Output) {
		return nil
	}
	return reuse.Clear(s.FS, s.Job.Output)
}

// checkSame refuses a job that is not the one of the folder, nor one that it may become, and takes what that one
// settled on.
func (s *Saved) checkSame(ctx context.Context) error {
	if err := s.findChange(ctx); err != nil {
		return err
	}
	now, err := s.Arithmetic("")
	if err != nil {
		return err
	}
	return s.CheckArithmetic(now)
}

// OpenFinished opens a finished job whose folder could not be locked because it is read-only. cause is the error of
// that, and it is returned for a job which is not finished.
func OpenFinished(ctx context.Context, p *process.Process, opened *prepare.Opened, cause error) (*Saved, error) {
	if p.New || !vfs.IsReadOnly(cause) {
		return nil, cause
	}
	reads := *p
	reads.FS = vfs.ReadOnly(p.FS)
	saved, err := Open(ctx, &reads, opened)
	switch {
	case vfs.IsReadOnly(err):
		return nil, cause
	case err != nil: // what is wrong with the job there
		return nil, err
	case len(saved.Missing) > 0 || saved.next != nil:
		_ = saved.Close() // nothing is open
		return nil, cause
	}
	return saved, nil
}

// Claim makes the description the folder's job, if there is none yet. If another process was faster, which may be
// one on another machine, its job must be the same, and this one is settled as that.
func (s *Saved) Claim(ctx context.Context, d *jobstate.Description) error {
	if s.State.Job() != nil {
		return s.Change()
	}
	// Journals of an older job whose description is gone.
	if err := errors.Join(journal.Clear(s.FS, s.State.Dir()), lineage.Clear(s.FS, s.State.Dir()),
		tools.ClearLog(s.FS, s.State.Dir())); err != nil {
		return fmt.Errorf("cannot clear the journal: %w", err)
	}
	err := s.State.Begin(d)
	if errors.Is(err, jobstate.ErrBegun) {
		return s.checkSame(ctx)
	}
	return err
}

// OpenPatiently is [Open], but waits for a while for the lock of a process that is dying: one that was killed, or a
// worker whose supervisor was.
func OpenPatiently(ctx context.Context, p *process.Process, opened *prepare.Opened) (saved *Saved, err error) {
	err = prepare.RetryWhile(ctx, jobstate.ErrBusy, func() (err error) {
		saved, err = Open(ctx, p, opened)
		return err
	})
	return saved, err
}

// Settle opens the output folder, and settles the job as the one there is.
func Settle(ctx context.Context, p *process.Process, opened *prepare.Opened) (saved *Saved, err error) {
	if !p.Shard.Whole() {
		if err := opened.CheckLineage(ctx, p.Shard); err != nil {
			return nil, err
		}
	}
	if saved, err = OpenPatiently(ctx, p, opened); err != nil {
		if saved, err = OpenFinished(ctx, p, opened, err); err != nil {
			return nil, err
		}
	}
	saved.ReportDamage(p.Messages)
	return saved, nil
}
