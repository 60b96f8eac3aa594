package setup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// accelerator is a plugin that go-xla's installer fetches: the version is pinned here, the digests come from the
// package index.
type accelerator struct {
	platform string
	title    string
	wheel    string // package of the plugin
	version  string
}

// accelerators by platform. The CUDA one is of the same XLA as [cpuPlugin].
var accelerators = map[string]accelerator{
	"cuda": {"cuda", "XLA:CUDA plugin (CUDA 13)", "jax-cuda13-pjrt", "0.11.2"},
	"tpu":  {"tpu", "TPU plugin (libtpu)", "libtpu", "0.0.51"},
}

// folder returns where go-xla's installer is told to install. It must be called go-xla: the installer makes links to
// that name beside it.
func (a accelerator) folder(root string) string {
	return filepath.Join(root, "plugins", a.platform+"-"+a.version, "go-xla")
}

// ensureAccelerator fetches the plugin of platform, and for cuda the libraries it needs (3 GB), through go-xla's
// installer.
func (in *installer) ensureAccelerator(ctx context.Context, platform string) (string, error) {
	a := accelerators[platform]
	err := in.locked(ctx, platform, func() error {
		if _, err := FindPlugin(platform); err == nil || !isMissing(err) { // another process was quicker
			return err
		}
		in.progress.report(Step{Item: platform, Stage: Downloading, File: a.wheel + " " + a.version})
		done := make(chan error, 1) // the library's calls take no context
		go func() { done <- installAccelerator(a, a.folder(in.root)) }()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("setup: fetching %s was interrupted: %w", a.title, err)
		}
		return "", missingAccelerator(in.root, platform, nil, err)
	}
	path, err := FindPlugin(platform)
	if err == nil {
		in.progress.report(Step{Item: platform, Stage: Installed, File: path, Done: sizeOf(path), Total: sizeOf(path)})
	}
	return path, err
}

// errNotHere says that a plugin is not made for this machine.
var errNotHere = errors.New("it is made for linux on x86-64 only")

func missingAccelerator(root, platform string, looked []string, cause error) *MissingError {
	a := accelerators[platform]
	return &MissingError{Item: platform, Title: a.title, Looked: looked, Cause: cause, Remedy: []string{
		"with network: sample setup " + platform,
		fmt.Sprintf("into the Python environment in use: pip install %s==%s", a.wheel, a.version),
		fmt.Sprintf("copy the folder %s\n    from a machine where \"sample setup %s\" has run", a.folder(root), platform),
		fmt.Sprintf("set %s=/path/to/plugin.so to a PJRT plugin of your own", EnvPlugin(platform)),
	}}
}
