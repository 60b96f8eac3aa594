package storage

import (
	"context"
	"errors"

	"github.com/quire/quire/data/storage/hub"
)

// Dataset returns the hub dataset that a name belongs to, with its revision; "" is none.
func Dataset(name string) string {
	if !ReadOnly(name) {
		return ""
	}
	return hubScheme + "://" + hubBucket + "/" + hub.Dataset(Path(name))
}

// Pinned returns the name of a file with the commit that it is read from, if that is known; else the name.
func Pinned(ctx context.Context, name string) (string, error) {
	if !ReadOnly(name) {
		return name, nil
	}
	b, l, err := openHub(ctx, name)
	if err != nil {
		return "", err
	}
	return hubScheme + "://" + hubBucket + "/" + b.Pinned(l.key), nil
}

// Forget makes the next use of a dataset look its revision up again.
func Forget(ctx context.Context, dataset string) error {
	b, l, err := openHub(ctx, dataset)
	if err == nil {
		b.Forget(l.key)
	}
	return err
}

func openHub(ctx context.Context, name string) (*hub.Bucket, location, error) {
	l, err := parse(name)
	if err != nil {
		return nil, l, failed("open", name, err)
	}
	b, err := l.open(ctx)
	if err != nil {
		return nil, l, failed("open", name, err)
	}
	datasets, ok := b.(*hub.Bucket)
	if !ok {
		return nil, l, failed("open", name, errors.New("it is not a dataset of the hub"))
	}
	return datasets, l, nil
}
