package storage

import (
	"context"

	"github.com/quire/quire/storage/hub"
)

// Dataset returns the name of the dataset of the hub that a name is of, with its revision; "" is none.
func Dataset(name string) string {
	if !ReadOnly(name) {
		return ""
	}
	return hubScheme + "://" + hubBucket + "/" + hub.Dataset(Path(name))
}

// Pinned returns the name of a file with the commit that it is read of, where that is known; else the name.
func Pinned(ctx context.Context, name string) (string, error) {
	if !ReadOnly(name) {
		return name, nil
	}
	l, err := parse(name)
	if err != nil {
		return "", failed("open", name, err)
	}
	b, err := l.open(ctx)
	if err != nil {
		return "", failed("open", name, err)
	}
	return hubScheme + "://" + hubBucket + "/" + hub.Pinned(b, l.key), nil
}

// Forget has the revision of a dataset looked up again.
func Forget(ctx context.Context, dataset string) error {
	l, err := parse(dataset)
	if err != nil {
		return failed("open", dataset, err)
	}
	b, err := l.open(ctx)
	if err != nil {
		return failed("open", dataset, err)
	}
	hub.Forget(b, l.key)
	return nil
}
