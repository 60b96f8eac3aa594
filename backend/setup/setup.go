package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// EnvCache names the environment variable that overrides the cache root.
const EnvCache = "QUIRE_CACHE"

// Step is one report of progress. Done and Total are bytes; Total is 0 if it is unknown.
type Step struct {
	Item  string // one of [Platforms], or a model name
	Stage Stage
	File  string // the file being worked on
	Done  int64
	Total int64
}

// Stage is what is being done to an item.
type Stage string

// The stages of fetching an item. Waiting is reported only if another process holds the lock, Terms only if the owner
// of a model has terms of its own.
const (
	Terms       Stage = "is under" // File names the terms
	Waiting     Stage = "waiting for another process"
	Downloading Stage = "downloading"
	Verifying   Stage = "verifying"
	Unpacking   Stage = "unpacking"
	Installed   Stage = "installed"
)

// Progress receives reports while something is fetched, from one goroutine at a time. It may be nil.
type Progress func(Step)

func (p Progress) report(s Step) {
	if p != nil {
		p(s)
	}
}

// Platforms lists the platforms of [FindPlugin] and [EnsurePlugin].
func Platforms() []string { return []string{"cpu", "cuda", CUDACompile, "tpu"} }

// Models lists the models of [FindModel] and [EnsureModel].
func Models() []string {
	var names []string
	for _, a := range models {
		names = append(names, a.Name)
	}
	return names
}

// DemoModel is the one of [Models] that the demo uses.
func DemoModel() string { return demoModel.Name }

// CacheDir returns the absolute path of the cache root: $QUIRE_CACHE, or "quire" under the user's cache folder.
// It does not create it.
func CacheDir() (string, error) {
	if dir := os.Getenv(EnvCache); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("setup: %s=%q is not a usable path: %w", EnvCache, dir, err)
		}
		return abs, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("setup: no folder for the cache: %w; set %s to one", err, EnvCache)
	}
	return filepath.Join(dir, "quire"), nil
}

// EnsurePlugin returns the absolute path of the PJRT plugin of one of the [Platforms], fetching it first if
// [FindPlugin] finds none. Without network it returns a [*MissingError] that states which file to put where.
func EnsurePlugin(ctx context.Context, platform string, progress Progress) (string, error) {
	path, err := FindPlugin(platform)
	if err == nil || !isMissing(err) {
		return path, err
	}
	in, err := newInstaller(progress)
	if err != nil {
		return "", err
	}
	if platform == cpuPlugin.Name && !cpuPlugin.fitsThisMachine() {
		return in.ensureCPURelease(ctx)
	}
	if platform == cpuPlugin.Name {
		return in.ensureWheel(ctx, cpuPlugin)
	}
	return in.ensureAccelerator(ctx, platform)
}

// EnsureModel returns the absolute path of the model file with this name (see [Models]), fetching it first if it is
// not in the cache. Without network it returns a [*MissingError] that states which file to put where.
func EnsureModel(ctx context.Context, name string, progress Progress) (string, error) {
	path, err := FindModel(name)
	if err == nil || !isMissing(err) {
		return path, err
	}
	in, err := newInstaller(progress)
	if err != nil {
		return "", err
	}
	a, _ := modelByName(name)
	return in.ensureWheel(ctx, a)
}

func unknownPlatform(platform string) error {
	return fmt.Errorf("setup: unknown platform %q: use one of %s", platform, strings.Join(Platforms(), ", "))
}

func unknownModel(name string) error {
	return fmt.Errorf("setup: unknown model name %q: use one of %s", name, strings.Join(Models(), ", "))
}
