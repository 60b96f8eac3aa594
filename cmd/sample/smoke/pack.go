package smoke

import (
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/cmd/sample/cli"
)

//go:embed models run.sh README.txt
var content embed.FS

// packFolder makes a folder.
func packFolder(ctx context.Context, env *cli.Environment, folder, topology string) error {
	if err := os.Mkdir(folder, 0o777); errors.Is(err, os.ErrExist) {
		return cli.Exit(cli.ExitUsage, fmt.Errorf("smoke: %s exists: name a folder that does not", folder))
	} else if err != nil {
		return fmt.Errorf("smoke: %w", err)
	}
	for _, pair := range [][2]string{{"run.sh", "run"}, {"README.txt", "README.txt"}} {
		text, err := content.ReadFile(pair[0])
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, pair[1]), text, 0o777)
		}
		if err != nil {
			return fmt.Errorf("smoke: %w", err)
		}
	}
	if err := packModels(folder); err != nil {
		return fmt.Errorf("smoke: %w", err)
	}
	p, err := thisProgram()
	if err != nil {
		return fmt.Errorf("smoke: %w", err)
	}
	if err := packProgram(filepath.Join(folder, "sample.gz"), p.path); err != nil {
		return fmt.Errorf("smoke: %w", err)
	}
	made := origin{Version: cli.QuireVersion(), Time: time.Now().UTC().Truncate(time.Second), Topology: topology}
	for _, model := range goldenModels {
		fmt.Fprintf(env.Stderr, "smoke: completions of %s by the CPU\n", model)
		if made.Computed, err = packGolden(ctx, p, folder, model); err != nil {
			return fmt.Errorf("smoke: completions of %s: %w", model, err)
		}
	}
	if topology != "" {
		if err := compileAhead(ctx, p, env.Stderr, folder, topology); err != nil {
			return fmt.Errorf("smoke: %w", err)
		}
	}
	if err := writeJSON(filepath.Join(folder, originFile), made); err != nil {
		return fmt.Errorf("smoke: %w", err)
	}
	fmt.Fprintf(env.Stdout, "%s is made: take it to the machine, and see its README.txt\n", folder)
	return nil
}

// packModels writes the configs and the prompts.
func packModels(folder string) error {
	if err := os.Mkdir(filepath.Join(folder, modelsFolder), 0o777); err != nil {
		return err
	}
	configs, err := content.ReadDir("models")
	if err != nil {
		return err
	}
	for _, config := range configs {
		text, err := content.ReadFile("models/" + config.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, modelsFolder, config.Name()), text, 0o666); err != nil {
			return err
		}
	}
	return writeRows(filepath.Join(folder, promptsFile), promptLengths)
}

// packProgram writes the program, stripped and compressed.
func packProgram(to, path string) error {
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	compressed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err == nil {
		err = copyStripped(compressed, path)
		err = errors.Join(err, compressed.Close())
	}
	return errors.Join(err, file.Close())
}

// packGolden generates the completions of a model and returns what computed them.
func packGolden(ctx context.Context, p *program, folder, model string) (computed string, err error) {
	work, err := os.MkdirTemp("", "quire-smoke-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	g := generation{folder: folder, model: model, backend: backend.XLACPU, dtype: f32, work: work,
		more: []string{"--top-logprobs", "3"}}
	made, err := g.run(ctx, p, nil)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(folder, goldensFolder), 0o777); err != nil {
		return "", err
	}
	text, err := os.ReadFile(made.file)
	if err == nil {
		err = os.WriteFile(goldenFile(folder, model), text, 0o666)
	}
	return made.report.Plan.Backend, err
}

// compileAhead puts the programs of the part ahead into the folder. They are for a device that need not be here.
func compileAhead(ctx context.Context, p *program, messages io.Writer, folder, topology string) error {
	plugin, err := setup.FindPlugin(backend.TPU)
	if err != nil {
		return err
	}
	cache, err := os.MkdirTemp("", "quire-smoke-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	fmt.Fprintf(messages, "smoke: programs for %s\n", topology)
	g := generation{folder: folder, model: aheadModel, dtype: bf16}
	args := append([]string{"plan", "--topology", topology, "--compile-only", "--json"}, g.engine()...)
	environment := []string{"QUIRE_CACHE=" + cache, setup.EnvPlugin(backend.TPU) + "=" + plugin}
	if _, err := p.do(ctx, environment, args...); err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(folder, programsFolder), os.DirFS(filepath.Join(cache, programsFolder)))
}

// writeJSON writes a file that has the old or the new text at each moment.
func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
