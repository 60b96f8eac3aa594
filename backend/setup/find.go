package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// place is one possible place of a plugin: a path or a glob, and a description.
type place struct {
	pattern string
	source  string
}

// EnvPlugin returns the name of the environment variable that overrides the plugin of platform: QUIRE_PLUGIN_CPU and
// so on.
func EnvPlugin(platform string) string {
	return "QUIRE_PLUGIN_" + strings.ToUpper(strings.ReplaceAll(platform, "-", "_"))
}

// FindPlugin returns the absolute path of the PJRT plugin of one of the [Platforms] without using the network. It
// looks, in this order, at the variable [EnvPlugin], at the user's own and fetched plugins in the cache, at the
// folders of go-xla's installer, and for cuda and tpu at the site-packages of Python and the system's libtpu. If
// there is none it returns a [*MissingError] that states which file to put where.
func FindPlugin(platform string) (string, error) {
	path, _, err := findPlugin(platform)
	return path, err
}

func findPlugin(platform string) (path, source string, err error) {
	if !slices.Contains(Platforms(), platform) {
		return "", "", unknownPlatform(platform)
	}
	if own := os.Getenv(EnvPlugin(platform)); own != "" {
		if err := regularFile(own); err != nil {
			return "", "", fmt.Errorf("setup: %s: %w", EnvPlugin(platform), err)
		}
		path, err = filepath.Abs(own)
		return path, EnvPlugin(platform), err
	}
	if platform == CUDACompile {
		if path, source, err = findPlugin("cuda"); err == nil || !isMissing(err) {
			return path, source, err
		}
	}
	root, err := CacheDir()
	if err != nil {
		return "", "", err
	}
	places := pluginPlaces(root, platform)
	looked := []string{"$" + EnvPlugin(platform) + " (not set)"}
	for _, p := range places {
		looked = append(looked, p.pattern)
		matches, _ := filepath.Glob(p.pattern) // fails only for a malformed pattern: a folder with '[' in its name
		slices.Sort(matches)
		slices.Reverse(matches) // the latest version first
		for _, m := range matches {
			if platform == cpuPlugin.Name && m == cpuPlugin.path(root) && !cpuPlugin.sizeOK(m) {
				looked[len(looked)-1] += " (of the wrong size, to be fetched again)"
				continue
			}
			if regularFile(m) != nil {
				continue
			}
			// A plugin looks for libraries next to itself, so return its real path.
			real, err := filepath.EvalSymlinks(m)
			if err != nil {
				continue
			}
			return real, p.source, nil
		}
	}
	if platform == cpuPlugin.Name {
		return "", "", cpuPlugin.missing(root, looked, nil)
	}
	return "", "", missingAccelerator(root, platform, looked, nil)
}

// FindModel returns the absolute path of the model file with this name (see [Models]) in the cache, or a
// [*MissingError].
func FindModel(name string) (string, error) {
	a, ok := modelByName(name)
	if !ok {
		return "", unknownModel(name)
	}
	root, err := CacheDir()
	if err != nil {
		return "", err
	}
	path := a.path(root)
	if a.sizeOK(path) {
		return a.used(root), nil
	}
	looked := path
	if _, err := os.Stat(path); err == nil {
		looked += " (of the wrong size, to be fetched again)"
	}
	return "", a.missing(root, []string{looked}, nil)
}

// ownPlugin describes the place of the user's own plugins that were installed by sample setup --from.
const ownPlugin = "your own, by sample setup --from"

// pluginPlaces lists the possible places of a plugin, best first.
func pluginPlaces(root, platform string) []place {
	places := []place{{filepath.Join(root, "plugins", platform+"-local", "*.so"), ownPlugin}}
	add := func(source string, patterns ...string) {
		for _, p := range patterns {
			places = append(places, place{p, source})
		}
	}
	var name string // in the folders of go-xla's installer
	switch platform {
	case "cpu":
		name = "pjrt_c_api_cpu*plugin.*"
		add("cache", cpuPlugin.path(root), filepath.Join(root, "plugins", "cpu-release", name))
	case "cuda":
		name = filepath.Join("nvidia", "pjrt_c_api_cuda_plugin.so")
		add("cache", filepath.Join(accelerators[platform].folder(root), name))
	case CUDACompile:
		add("cache", filepath.Join(accelerators[platform].folder(root),
			filepath.FromSlash(accelerators[platform].target)))
		return places
	case "tpu":
		name = "pjrt_c_api_tpu_plugin.so"
		add("cache", filepath.Join(accelerators[platform].folder(root), name))
	}
	for _, dir := range goXLAFolders() {
		add("go-xla", filepath.Join(dir, name))
		if platform == "cuda" { // PJRT_PLUGIN_LIBRARY_PATH may name the nvidia folder itself
			add("go-xla", filepath.Join(dir, filepath.Base(name)))
		}
	}
	switch platform {
	case "cuda":
		for _, dir := range sitePackages() {
			add("site-packages", filepath.Join(dir, "jax_plugins", "xla_cuda1[23]", "xla_cuda_plugin.so"))
		}
	case "tpu":
		if p := os.Getenv("TPU_LIBRARY_PATH"); p != "" {
			add("TPU_LIBRARY_PATH", p)
		}
		for _, dir := range sitePackages() {
			add("site-packages", filepath.Join(dir, "libtpu", "libtpu.so"))
		}
		add("system", "/lib/libtpu.so", "/usr/lib/libtpu.so", "/usr/local/lib/libtpu.so")
	}
	return places
}

// goXLAFolders lists the folders in which go-xla looks for plugins and its installer puts them.
func goXLAFolders() []string {
	dirs := filepath.SplitList(os.Getenv("PJRT_PLUGIN_LIBRARY_PATH"))
	if home, err := os.UserHomeDir(); err == nil {
		if runtime.GOOS == "darwin" {
			dirs = append(dirs, filepath.Join(home, "Library", "Application Support", "go-xla"))
		} else {
			dirs = append(dirs, filepath.Join(home, ".local", "lib", "go-xla"))
		}
	}
	return append(dirs, "/usr/local/lib/go-xla")
}

// sitePackages lists globs for the package folders of the Pythons that are likely in use: an active virtual or conda
// environment first.
func sitePackages() []string {
	var dirs []string
	for _, env := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if prefix := os.Getenv(env); prefix != "" {
			dirs = append(dirs, filepath.Join(prefix, "lib", "python3*", "site-packages"))
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".local", "lib", "python3*", "site-packages"))
	}
	return append(dirs, "/usr/local/lib/python3*/site-packages", "/usr/local/lib/python3*/dist-packages",
		"/usr/lib/python3*/dist-packages")
}

// sizeOK reports whether path is a file of the pinned size. The digest is checked only on installation and by [List],
// because reading 200 MB at every start would be noticeable.
func (a asset) sizeOK(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Size() == a.Size
}

func regularFile(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", path)
	}
	return nil
}
