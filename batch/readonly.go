package batch

import (
	"context"

	"github.com/quire/quire/vfs"
)

// openFinished opens a finished job whose folder could not be locked because it is read-only. cause is the error of
// that, and it is returned for a job which is not finished.
func openFinished(ctx context.Context, p *Process, opened *Opened, cause error) (*savedJob, error) {
	if p.New || !vfs.IsReadOnly(cause) {
		return nil, cause
	}
	reads := *p
	reads.FS = vfs.ReadOnly(p.FS)
	saved, err := openSaved(ctx, &reads, opened)
	switch {
	case vfs.IsReadOnly(err):
		return nil, cause
	case err != nil: // what is wrong with the job there
		return nil, err
	case len(saved.missing) > 0 || saved.next != nil:
		_ = saved.close() // nothing is open
		return nil, cause
	}
	return saved, nil
}
