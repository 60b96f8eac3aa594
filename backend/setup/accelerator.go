package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	xlainstaller "github.com/gomlx/go-xla/installer"
)

// accelerator is a plugin with a pinned version, whose digests come from the package index.
type accelerator struct {
	platform string
	title    string
	wheel    string // package of the plugin
	version  string
	inside   string // path of the plugin in the wheel
	target   string // slash path of the plugin under the accelerator's folder
	// libraries are the packages that it needs among the dependencies of [cudaLibraries], by the start of their
	// names.
	libraries []string
	cost      string // what its installation takes, for people
}

// accelerators lists plugins by platform. The CUDA one is built from the same XLA as [cpuPlugin].
var accelerators = map[string]accelerator{
	"cuda": {"cuda", "XLA:CUDA plugin (CUDA 13)", "jax-cuda13-pjrt", "0.11.2",
		"jax_plugins/xla_cuda13/xla_cuda_plugin.so", "nvidia/pjrt_c_api_cuda_plugin.so", []string{"nvidia"},
		"2 GB to fetch, 4 GB on disk"},
	CUDACompile: {CUDACompile, "XLA:CUDA plugin and assembler, to compile without a GPU", "jax-cuda13-pjrt", "0.11.2",
		"jax_plugins/xla_cuda13/xla_cuda_plugin.so", "nvidia/pjrt_c_api_cuda_plugin.so",
		[]string{"nvidia-cuda-nvcc", "nvidia-nvvm"}, "0.3 GB to fetch, 0.7 GB on disk"},
	"tpu": {"tpu", "TPU plugin (libtpu)", "libtpu", "0.0.51", "libtpu/libtpu.so", "pjrt_c_api_tpu_plugin.so", nil,
		"205 MB to fetch"},
}

// CUDACompile is the platform with only what is needed to compile programs for absent GPUs: a tenth of the size of
// "cuda". If "cuda" is installed, it is used instead.
const CUDACompile = "cuda-compile"

// Compiler returns the one of [Platforms] that compiles for a platform's devices if there are none.
func Compiler(platform string) string {
	if platform == "cuda" {
		return CUDACompile
	}
	return platform
}

// cudaLibraries is the package whose dependencies are the libraries that the CUDA plugin needs.
const cudaLibraries = "jax-cuda13-plugin"

// folder returns the folder of the plugin, with the layout of go-xla's own installer.
func (a accelerator) folder(root string) string {
	return filepath.Join(root, "plugins", a.platform+"-"+a.version, "go-xla")
}

// ensureAccelerator fetches the plugin of platform, and for cuda the libraries that it needs. It does not fetch again
// what was complete before an interruption.
func (in *installer) ensureAccelerator(ctx context.Context, platform string) (string, error) {
	a := accelerators[platform]
	err := in.locked(ctx, platform, func() error {
		if _, err := FindPlugin(platform); err == nil || !isMissing(err) { // another process was faster
			return err
		}
		if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
			return errors.New("there is a build for Linux on x86-64 only")
		}
		if len(a.libraries) > 0 {
			if err := in.fetchCUDALibraries(ctx, a); err != nil {
				return err
			}
		}
		return in.fetchAccelerator(ctx, a)
	})
	if err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("setup: fetching %s was interrupted: %w; the next run resumes", a.title,
				err)
		}
		return "", missingAccelerator(in.root, platform, nil, err)
	}
	path, err := FindPlugin(platform)
	if err == nil {
		in.progress.report(Step{Item: platform, Stage: Installed, File: path, Done: sizeOf(path), Total: sizeOf(path)})
	}
	return path, err
}

// fetchAccelerator fetches the plugin itself. It comes after its libraries, so that the plugin's presence means that
// everything is installed.
func (in *installer) fetchAccelerator(ctx context.Context, a accelerator) error {
	info, err := pipInfo(ctx, a.wheel)
	if err != nil {
		return err
	}
	// Wheels for different versions of Python contain the same plugin.
	wheel, err := in.fetchIndexed(ctx, a.platform, info, a.version)
	if err != nil {
		return err
	}
	defer os.Remove(wheel)
	target := filepath.Join(a.folder(in.root), filepath.FromSlash(a.target))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	in.progress.report(Step{Item: a.platform, Stage: Unpacking, File: a.inside})
	tmp := target + ".tmp"
	defer os.Remove(tmp)
	if err := xlainstaller.ExtractFileFromZip(wheel, a.inside, tmp); err != nil {
		return fmt.Errorf("unpacking %s of %s: %w", a.inside, filepath.Base(wheel), err)
	}
	if err := os.Chmod(tmp, 0o644); err != nil {
		return err
	}
	return renameSynced(tmp, target)
}

// fetchCUDALibraries unpacks NVIDIA's libraries next to the plugin.
func (in *installer) fetchCUDALibraries(ctx context.Context, a accelerator) error {
	// the index's page of one version, which not all mirrors have
	plugin, err := pipInfo(ctx, cudaLibraries+"/"+a.version)
	if err != nil {
		plugin, err = pipInfo(ctx, cudaLibraries)
	}
	if err != nil {
		return err
	}
	dependencies, err := plugin.ParseDependencies()
	if err != nil {
		return fmt.Errorf("the dependencies of %s: %w", cudaLibraries, err)
	}
	nvidia := filepath.Join(a.folder(in.root), "nvidia")
	done := filepath.Join(nvidia, ".unpacked") // has a file for each unpacked wheel
	if err := os.MkdirAll(done, 0o755); err != nil {
		return err
	}
	for _, d := range dependencies {
		if !slices.ContainsFunc(a.libraries, func(prefix string) bool { return strings.HasPrefix(d.Package, prefix) }) {
			continue
		}
		if err := in.fetchCUDALibrary(ctx, a, d, nvidia, done); err != nil {
			return err
		}
	}
	return linkCUDALibraries(nvidia)
}

func (in *installer) fetchCUDALibrary(ctx context.Context, a accelerator, d xlainstaller.PipDependency, nvidia,
	done string) error {
	info, err := pipInfo(ctx, d.Package)
	if err != nil {
		return err
	}
	version := ""
	for v, releases := range info.Releases {
		_, err := xlainstaller.PipSelectRelease(releases, linuxWheel, true)
		if err == nil && plainVersion.MatchString(v) && d.IsValid(v) &&
			(version == "" || xlainstaller.PipCompareVersion(v, version) > 0) {
			version = v
		}
	}
	if version == "" {
		return fmt.Errorf("the package index has no version of %s for Linux on x86-64 that the plugin takes", d.Package)
	}
	mark := filepath.Join(done, d.Package+"-"+version)
	if regularFile(mark) == nil {
		return nil
	}
	wheel, err := in.fetchIndexed(ctx, a.platform, info, version)
	if err != nil {
		return err
	}
	defer os.Remove(wheel)
	in.progress.report(Step{Item: a.platform, Stage: Unpacking, File: filepath.Base(wheel)})
	if err := xlainstaller.ExtractDirFromZip(wheel, "nvidia", nvidia); err != nil {
		return fmt.Errorf("unpacking %s: %w", filepath.Base(wheel), err)
	}
	return os.WriteFile(mark, nil, 0o644)
}

var (
	linuxWheel   = xlainstaller.PipPackageLinuxAMD64()
	plainVersion = regexp.MustCompile(`^[0-9.]+$`) // excludes release candidates and test builds
)

// linkCUDALibraries creates the links that the plugin needs, as go-xla's installer does: the plugin looks for the
// assembler in nvidia/bin, and for two libraries two folders up.
func linkCUDALibraries(nvidia string) error {
	links := map[string]string{filepath.Join(nvidia, "bin", "ptxas"): "../cu13/bin/ptxas"}
	for _, name := range []string{"libcublasLt.so.13", "libcublas.so.13"} {
		links[filepath.Join(nvidia, "..", "..", name)] = "go-xla/nvidia/cu13/lib/" + name
	}
	for link, to := range links {
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return err
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(to, link); err != nil {
			return err
		}
	}
	return nil
}

// fetchIndexed downloads a version's wheel and checks it against the index's digest.
func (in *installer) fetchIndexed(ctx context.Context, item string, info *xlainstaller.PipPackageInfo,
	version string) (string, error) {
	pkg := info.Info.Name
	release, err := xlainstaller.PipSelectRelease(info.Releases[version], linuxWheel, true)
	if err != nil {
		return "", fmt.Errorf("the package index has no wheel of %s %s for Linux on x86-64", pkg, version)
	}
	digest := release.Digests["sha256"]
	if len(digest) != 64 {
		return "", fmt.Errorf("the package index lists no SHA-256 for %s", release.Filename)
	}
	url, err := absoluteURL(release.URL, info.Info.ProjectURL, pkg)
	if err != nil {
		return "", err
	}
	return in.download(ctx, item, url, filepath.Join(in.root, "downloads"), filepath.Base(release.Filename), digest)
}

func missingAccelerator(root, platform string, looked []string, cause error) *MissingError {
	a := accelerators[platform]
	return &MissingError{Item: platform, Title: a.title, Looked: looked, Cause: cause, Remedy: []string{
		"with network: sample setup " + platform,
		fmt.Sprintf("into the Python environment in use: pip install %s==%s", a.wheel, a.version),
		fmt.Sprintf("copy the folder %s\n    from a machine where \"sample setup %s\" has run",
			filepath.Dir(a.folder(root)), platform),
		fmt.Sprintf("set %s=/path/to/plugin.so to use your own PJRT plugin", EnvPlugin(platform)),
	}}
}
