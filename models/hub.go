package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gomlx/go-huggingface/hub"
)

const hubScheme = "hf://"

// ErrOffline is wrapped by Open's error for a hub reference that is neither in the cache nor reachable.
var ErrOffline = errors.New("the model hub cannot be reached and its cache does not hold the model")

// hubRef is org/name with a revision, and a file for GGUF repositories.
type hubRef struct{ repo, revision, file string }

var hubPattern = regexp.MustCompile(`^([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w.-]+))?(?:/([\w./-]+\.gguf))?$`)

func parseHubRef(ref string) (hubRef, error) {
	m := hubPattern.FindStringSubmatch(strings.TrimPrefix(ref, hubScheme))
	if m == nil || strings.Contains(ref, "..") {
		return hubRef{}, fmt.Errorf("it is not of the form %sorg/name[@revision][/file.gguf]", hubScheme)
	}
	h := hubRef{repo: m[1], revision: m[2], file: m[3]}
	if h.revision == "" {
		h.revision = "main"
	}
	return h, nil
}

// fetchFromHub brings the repository's files into the hub's cache and returns the folder, or the GGUF file in it. The
// cache is the one that Hugging Face's own tools use. Environment: HF_TOKEN for gated models, HF_HUB_CACHE or HF_HOME for
// the cache's place, HF_ENDPOINT for another hub, HF_HUB_OFFLINE=1 to use only the cache.
func fetchFromHub(ref string) (path string, err error) {
	h, err := parseHubRef(ref)
	if err != nil {
		return "", err
	}
	cache := hubCacheDir()
	var fetchErr error
	if offline := os.Getenv("HF_HUB_OFFLINE"); offline == "" || offline == "0" {
		if path, fetchErr = h.download(cache); fetchErr == nil {
			return path, nil
		}
	} else {
		fetchErr = errors.New("HF_HUB_OFFLINE is set")
	}
	if path, ok := h.cached(cache); ok {
		return path, nil
	}
	return "", fmt.Errorf("%w (%w); fetch it into %s where there is a network, or give a local folder or .gguf file", ErrOffline, fetchErr, cache)
}

func hubCacheDir() string {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return filepath.Join(dir, "hub")
	}
	return hub.DefaultCacheDir()
}

// download fetches what is not in the cache yet.
func (h hubRef) download(cache string) (string, error) {
	repo := hub.New(h.repo).WithRevision(h.revision).WithCacheDir(cache).WithAuth(os.Getenv("HF_TOKEN"))
	repo.Verbosity = 0
	if info, err := os.Stdout.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		repo.Verbosity = 1 // it shows progress by rewriting a line of standard output
	}
	if err := repo.DownloadInfo(true); err != nil {
		return "", err
	}
	var all []string
	for name, err := range repo.IterFileNames() {
		if err != nil {
			return "", err
		}
		all = append(all, name)
	}
	wanted, err := h.wanted(all)
	if err != nil {
		return "", err
	}
	paths, err := repo.DownloadFiles(wanted...)
	if err != nil {
		return "", err
	}
	if h.file != "" {
		return paths[0], nil
	}
	return filepath.Dir(paths[0]), nil
}

// wanted chooses the files of a repository that Open reads, a top-level one first.
func (h hubRef) wanted(all []string) ([]string, error) {
	if h.file != "" {
		if !slices.Contains(all, h.file) {
			return nil, fmt.Errorf("repository %s has no file %s", h.repo, h.file)
		}
		return []string{h.file}, nil
	}
	var wanted, ggufs []string
	sharded := slices.Contains(all, weightsIndex)
	weights := false
	for _, name := range all {
		switch {
		case filepath.Ext(name) == ".gguf":
			ggufs = append(ggufs, name)
		case strings.Contains(name, "/"): // other forms of the model: onnx/, original/
		case filepath.Ext(name) == ".safetensors":
			if name == weightsFile && !sharded || sharded && strings.HasPrefix(name, "model-") {
				wanted = append(wanted, name)
				weights = true
			}
		case slices.Contains([]string{configFile, generationFile, tokenizerFile, tokenizerConfig, chatTemplateFile, weightsIndex,
			"special_tokens_map.json", "tokenizer.model", "vocab.json", "merges.txt", "added_tokens.json"}, name):
			wanted = append(wanted, name)
		}
	}
	if !weights {
		remedy := "only safetensors and GGUF weights are read"
		if len(ggufs) > 0 {
			remedy = fmt.Sprintf("name one of its GGUF files, e.g. %s%s/%s", hubScheme, h.repo, ggufs[0])
		}
		return nil, fmt.Errorf("repository %s has no %s; %s", h.repo, weightsFile, remedy)
	}
	return wanted, nil
}

// cached finds a snapshot that is already in the cache, whole as far as Open needs it.
func (h hubRef) cached(cache string) (string, bool) {
	repo := filepath.Join(cache, "models--"+strings.ReplaceAll(h.repo, "/", "--"))
	commits := []string{h.revision} // a revision may be a commit itself
	if ref, err := os.ReadFile(filepath.Join(repo, "refs", h.revision)); err == nil {
		commits = append(commits, strings.TrimSpace(string(ref)))
	}
	if data, err := os.ReadFile(filepath.Join(repo, "info", h.revision)); err == nil { // go-huggingface's form of refs
		var info struct{ SHA string }
		if json.Unmarshal(data, &info) == nil {
			commits = append(commits, info.SHA)
		}
	}
	for _, commit := range commits {
		if commit == "" || commit != filepath.Base(commit) || commit == ".." {
			continue
		}
		dir := filepath.Join(repo, "snapshots", commit)
		if h.file != "" {
			if path := filepath.Join(dir, h.file); exists(path) {
				return path, true
			}
			continue
		}
		shards, _, err := weightShards(dir)
		whole := err == nil && exists(filepath.Join(dir, configFile))
		for _, shard := range shards {
			whole = whole && exists(filepath.Join(dir, shard))
		}
		if whole {
			return dir, true
		}
	}
	return "", false
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
