package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gomlx/go-huggingface/hub"

	login "github.com/quire/quire/data/storage/hub"
	"github.com/quire/quire/models/gguf"
)

const hubScheme = "hf://"

// OnHub reports whether ref names a repository of the hub.
func OnHub(ref string) bool { return strings.HasPrefix(ref, hubScheme) }

// ErrNotFetched is wrapped by Open's error for a hub reference that is not in the hub's cache and cannot be fetched.
var ErrNotFetched = errors.New("the model is not in the hub's cache and cannot be fetched")

// hubRef is org/name with a revision, and a file for GGUF repositories.
type hubRef struct {
	repo, revision, file string
	// configOnly skips the weights. only, if not nil, lists the files to fetch, of a repository that is no model.
	configOnly bool
	only       []string
	// urls, if not nil, receives the URLs of the weight files, which are then not fetched.
	urls map[string]string
}

var isCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)

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

// fetchFromHub fetches the repository's files into the hub's cache and returns the folder, or the GGUF file in it.
// The cache is the one that Hugging Face's own tools use. Environment: HF_TOKEN for gated models, HF_HUB_CACHE or
// HF_HOME for the cache's folder, HF_ENDPOINT for a different hub, HF_HUB_OFFLINE=1 to use only the cache.
func fetchFromHub(ref string, configOnly bool) (path string, err error) {
	h, err := parseHubRef(ref)
	if err != nil {
		return "", err
	}
	h.configOnly = configOnly && h.file == ""
	return h.fetch()
}

// FetchFiles fetches files of a repository that is no model into the hub's cache, and returns the folder.
func FetchFiles(ref string, files ...string) (folder string, err error) {
	h, err := parseHubRef(ref)
	if err == nil {
		h.only = files
		folder, err = h.fetch()
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", ref, err)
	}
	return folder, nil
}

func (h hubRef) fetch() (path string, err error) {
	cache := hubCacheDir()
	commits := h.commits(cache) // read first: the download starts by deleting go-huggingface's record of it
	if isCommit.MatchString(h.revision) {
		if path, ok := h.cached(cache, commits); ok { // a commit never changes
			return path, nil
		}
	}
	offline := errors.New("HF_HUB_OFFLINE is set")
	if !login.Offline() {
		var refusal error
		if path, refusal, offline = h.download(cache); offline == nil {
			return path, refusal
		}
	}
	if path, ok := h.cached(cache, commits); ok {
		return path, nil
	}
	return "",
		fmt.Errorf(
			"%w (%w); fetch it into %s where there is a network (HF_TOKEN for models that need a login), or give a "+
				"local folder or .gguf file",
			ErrNotFetched, offline, cache)
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

// download fetches what is not in the cache yet. refusal is an error in the repository's content, fetchErr an error
// of fetching it.
func (h hubRef) download(cache string) (path string, refusal, fetchErr error) {
	repo := hub.New(h.repo).WithRevision(h.revision).WithCacheDir(cache).WithAuth(os.Getenv("HF_TOKEN"))
	repo.Verbosity = 0
	if info, err := os.Stdout.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		repo.Verbosity = 1 // it shows progress by rewriting a line of standard output
	}
	if err := repo.DownloadInfo(true); err != nil {
		return "", nil, err
	}
	sizes := map[string]int64{}
	for file, err := range repo.IterFileInfos() {
		if err != nil {
			return "", nil, err
		}
		if !filepath.IsLocal(file.Name) {
			return "", fmt.Errorf("repository %s has a file named %q", h.repo, file.Name), nil
		}
		sizes[file.Name] = file.Size
	}
	all := slices.Sorted(maps.Keys(sizes))
	fetch := func(names []string) (dir string, err error) {
		// go-huggingface 0.4.1 counts files fetched together without a lock, and reports a broken connection as a
		// success.
		for i, name := range names {
			path, err := repo.DownloadFile(name)
			if err != nil {
				return "", err
			}
			info, err := os.Stat(path)
			if err != nil || sizes[names[i]] > 0 && info.Size() != sizes[names[i]] {
				return "", fmt.Errorf("the download of %s broke off", names[i])
			}
			dir = strings.TrimSuffix(path, string(filepath.Separator)+filepath.FromSlash(names[i]))
		}
		return dir, h.record(cache, filepath.Base(dir))
	}
	if h.only != nil {
		for _, file := range h.only {
			if !slices.Contains(all, file) {
				return "", fmt.Errorf("repository %s has no file %s", h.repo, file), nil
			}
		}
		dir, err := fetch(h.only)
		return dir, nil, err
	}
	if h.file != "" {
		files := gguf.SplitNames(h.file)
		for _, file := range files {
			if !slices.Contains(all, file) {
				return "", fmt.Errorf("repository %s has no file %s", h.repo, file), nil
			}
		}
		if h.urls != nil {
			return "", nil, h.locate(repo, files...)
		}
		dir, err := fetch(files)
		return filepath.Join(dir, h.file), nil, err
	}
	texts, err := h.textFiles(all)
	if err != nil {
		return "", err, nil
	}
	dir, err := fetch(texts)
	if err != nil {
		return "", nil, err
	}
	if _, err := readFolderConfig(dir); err != nil { // an unsupported model is rejected before gigabytes are fetched
		return "", err, nil
	}
	if h.configOnly {
		return dir, nil, nil
	}
	weights := []string{weightsFile}
	if slices.Contains(all, weightsIndex) {
		if weights, _, err = readIndex(dir); err != nil {
			return "", err, nil
		}
	}
	if h.urls != nil {
		return dir, nil, h.locate(repo, weights...)
	}
	_, err = fetch(weights)
	return dir, nil, err
}

// locate records the URLs of the weights.
func (h hubRef) locate(repo *hub.Repo, files ...string) (err error) {
	for _, file := range files {
		if h.urls[file], err = repo.FileURL(file); err != nil {
			return err
		}
	}
	return nil
}

// HubWeights is a model of the hub whose weights are not on this machine.
type HubWeights struct {
	// Folder has the files other than weights; "" for GGUF files.
	Folder string
	// URLs has the URL of each weight file, at a commit, which never changes. Header is sent with requests.
	URLs   map[string]string
	Header http.Header
}

// FindOnHub fetches a model of the hub except its weights. It returns nil if the whole model is in the cache, or if
// nothing can be fetched from the hub now: Open handles both.
func FindOnHub(ref string) (*HubWeights, error) {
	h, err := parseHubRef(ref)
	if err != nil || login.Offline() {
		return nil, nil
	}
	cache := hubCacheDir()
	if isCommit.MatchString(h.revision) {
		if _, ok := h.cached(cache, []string{h.revision}); ok {
			return nil, nil
		}
	}
	found := h
	found.urls = map[string]string{}
	dir, refusal, fetchErr := found.download(cache)
	if refusal != nil {
		return nil, fmt.Errorf("model %s: %w", ref, refusal)
	}
	if fetchErr != nil {
		return nil, nil
	}
	if _, ok := h.cached(cache, h.commits(cache)); ok {
		return nil, nil
	}
	return &HubWeights{Folder: dir, URLs: found.urls, Header: login.Header()}, nil
}

// record writes which commit the revision is, in the place that Hugging Face's own tools use, to find the files
// without a network.
func (h hubRef) record(cache, commit string) error {
	if h.revision == commit {
		return nil
	}
	refs := filepath.Join(h.cacheDir(cache), "refs")
	if err := os.MkdirAll(refs, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(refs, h.revision), []byte(commit), 0o644)
}

func (h hubRef) cacheDir(cache string) string {
	return filepath.Join(cache, "models--"+strings.ReplaceAll(h.repo, "/", "--"))
}

// textFiles selects the repository's files other than weights that Open reads or that tokenizers may need.
func (h hubRef) textFiles(all []string) ([]string, error) {
	var texts, ggufs []string
	for _, name := range all {
		if filepath.Ext(name) == ".gguf" {
			ggufs = append(ggufs, name)
		}
		if isText(name) {
			texts = append(texts, name)
		}
	}
	if slices.Contains(all, configFile) && (slices.Contains(all, weightsFile) || slices.Contains(all, weightsIndex)) {
		return texts, nil
	}
	remedy := "only safetensors and GGUF weights are read"
	if len(ggufs) > 0 {
		remedy = fmt.Sprintf("name one of its GGUF files, e.g. %s%s/%s", hubScheme, h.repo, ggufs[0])
	}
	return nil, fmt.Errorf("repository %s has no %s with %s; %s", h.repo, configFile, weightsFile, remedy)
}

// commits lists the commits that the cache's records give for the revision, the likeliest first.
func (h hubRef) commits(cache string) []string {
	commits := []string{h.revision} // a revision may be a commit itself
	if ref, err := os.ReadFile(filepath.Join(h.cacheDir(cache), "refs", h.revision)); err == nil {
		commits = append(commits, strings.TrimSpace(string(ref)))
	}
	// go-huggingface's record
	if data, err := os.ReadFile(filepath.Join(h.cacheDir(cache), "info", h.revision)); err == nil {
		var info struct{ SHA string }
		if json.Unmarshal(data, &info) == nil {
			commits = append(commits, info.SHA)
		}
	}
	return slices.DeleteFunc(commits, func(c string) bool {
		return c == "" || c == "." || c == ".." ||
			c != filepath.Base(c)
	})
}

// cached finds a snapshot in the cache that has everything Open needs.
func (h hubRef) cached(cache string, commits []string) (path string, ok bool) {
	for _, commit := range commits {
		dir := filepath.Join(h.cacheDir(cache), "snapshots", commit)
		if h.only != nil {
			if !slices.ContainsFunc(h.only, func(file string) bool { return !exists(filepath.Join(dir, file)) }) {
				return dir, true
			}
			continue
		}
		if h.file != "" {
			missing := func(file string) bool { return !exists(filepath.Join(dir, file)) }
			if !slices.ContainsFunc(gguf.SplitNames(h.file), missing) {
				return filepath.Join(dir, h.file), true
			}
			continue
		}
		if h.configOnly {
			if exists(filepath.Join(dir, configFile)) {
				return dir, true
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
