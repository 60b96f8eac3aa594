package folder

import (
	"context"

	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
)

// Open opens an output folder for writing: a local one, as [NewShared] does, or one in an object store, whose
// unpublished files are in the folder work.
func Open(ctx context.Context, files vfs.FS, output, owner, work string) (Output, error) {
	if storage.IsRemote(output) {
		return newObjects(ctx, output, work)
	}
	return NewShared(files, output, owner)
}

// OpenToRead opens an output folder, local or in an object store, for reading: it changes nothing there.
func OpenToRead(ctx context.Context, files vfs.FS, output string) Published {
	if storage.IsRemote(output) {
		return &Objects{ctx: ctx, url: output}
	}
	return OpenLocal(files, output)
}
