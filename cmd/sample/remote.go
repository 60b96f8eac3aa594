package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/models"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/setup"
	"github.com/quire/quire/storage"
)

// hideParameters takes the parameters off URLs of objects, which may hold what does not belong into logs and outputs.
func (o *runOptions) hideParameters() (err error) {
	if o.model, err = storage.Hide(o.model); err != nil {
		return err
	}
	if o.output, err = storage.Hide(o.output); err != nil {
		return err
	}
	for i := range o.inputs {
		if o.inputs[i], err = storage.Hide(o.inputs[i]); err != nil {
			return err
		}
	}
	return nil
}

// fetchRemoteModel brings a model folder or GGUF file that is the URL of objects into the cache and returns its path
// there.
func fetchRemoteModel(ctx context.Context, env *environment, ref string) (string, error) {
	cache, err := setup.CacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "remote")
	show := fetchedLines(env.stderr)
	if strings.HasSuffix(storage.Path(ref), ".gguf") {
		return storage.Fetch(ctx, ref, cache, show)
	}
	dir, err := models.FetchFolder(func(want func(file string) bool) (string, error) {
		return storage.FetchFolder(ctx, ref, cache, want, show)
	})
	if err != nil {
		return "", fmt.Errorf("model %s: %w", storage.Redact(ref), err)
	}
	return dir, nil
}

// fetchedEvery is the time between lines about one download.
const fetchedEvery = 5 * time.Second

func fetchedLines(w io.Writer) storage.Progress {
	last := time.Now()
	return func(name string, done, total int64) {
		if done > 0 && time.Since(last) >= fetchedEvery {
			last = time.Now()
			fmt.Fprintf(w, "fetching %s: %d of %d MB\n", name, done>>20, total>>20)
		}
	}
}

// workFolder is where the state and the journal of a job are: the output folder, or for an output elsewhere a local
// folder of its own.
func (o *runOptions) workFolder() (string, error) {
	if o.workDir != "" {
		return o.workDir, nil
	}
	if !storage.IsRemote(o.output) {
		return o.output, nil
	}
	cache, err := setup.CacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.TrimSuffix(storage.Redact(o.output), "/")))
	return filepath.Join(cache, "jobs", hex.EncodeToString(sum[:8])), nil
}

// outputFolder is where the parts of a job are.
type outputFolder interface {
	promptset.Destination
	Clear() error
}

// objectFolder is an output folder in an object store. Parts are written to a local file, and put there whole where
// there is none of their name: of two processes that do the same job, one writes a part and the other finds that it is
// there.
//
// Beside the parts it keeps, under _job, what another machine needs to go on when this one is gone for good: the job's
// description and what the parts came to. The journal stays here.
type objectFolder struct {
	ctx  context.Context
	url  string
	work string // for files that are not published

	mu        sync.Mutex
	condemned map[string]string // damaged objects by name: their versions
}

func newObjectFolder(ctx context.Context, url, work string) (*objectFolder, error) {
	f := &objectFolder{ctx: context.WithoutCancel(ctx), url: url, work: filepath.Join(work, "unpublished")}
	if err := os.RemoveAll(f.work); err != nil {
		return nil, fmt.Errorf("cannot clear what an earlier process left: %w", err)
	}
	if err := os.MkdirAll(f.work, 0o777); err != nil {
		return nil, fmt.Errorf("cannot make the work folder: %w", err)
	}
	return f, nil
}

// Names lists what is in the folder itself.
func (f *objectFolder) Names() ([]string, error) {
	files, err := storage.List(f.ctx, f.url)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, info := range files {
		if name := f.relative(info.Name); !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names, nil
}

func (f *objectFolder) relative(name string) string {
	root := strings.TrimSuffix(storage.Path(f.url), "/")
	return strings.TrimPrefix(strings.TrimPrefix(storage.Path(name), root), "/")
}

// Open opens an object of the folder.
func (f *objectFolder) Open(name string) (promptset.File, error) {
	return storage.Open(f.ctx, storage.Join(f.url, name))
}

// Create starts a part.
func (f *objectFolder) Create(name string) (promptset.Unpublished, error) {
	file, err := os.Create(filepath.Join(f.work, name))
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	return &objectFile{folder: f, name: name, File: file}, nil
}

type objectFile struct {
	folder *objectFolder
	name   string
	*os.File
}

// Publish puts the object, whole.
func (p *objectFile) Publish() error {
	err := p.folder.clearTheWay(p.name)
	if err == nil {
		err = storage.Put(p.folder.ctx, storage.Join(p.folder.url, p.name), p.File)
	}
	p.Discard()
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: another job writes to this folder; choose another output", err)
	}
	return err
}

// Discard removes the local file.
func (p *objectFile) Discard() {
	p.Close()
	os.Remove(p.File.Name())
}

// Names of what is kept for other machines.
const (
	remoteJob   = jobstate.Folder + "/job.json"
	remoteParts = jobstate.Folder + "/parts/"
	remotePart  = "part-%05d.json"
	// maxRemoteState bounds what is read of one such file.
	maxRemoteState = 1 << 30
)

// parseRemotePart is the number of the part whose figures a file has: the name is that of a JSONL part but for its last
// letter.
func parseRemotePart(name string) (part int, ok bool) {
	if part, _, ok = promptset.ParsePartName(name + "l"); ok {
		ok = name == fmt.Sprintf(remotePart, part)
	}
	return part, ok
}

// Clear removes all that a job has put there. The description goes last: without it nobody knows whose the parts are.
func (f *objectFolder) Clear() error {
	files, err := storage.List(f.ctx, f.url)
	if err != nil {
		return err
	}
	slices.SortStableFunc(files, func(a, b storage.Info) int {
		last := func(i storage.Info) int {
			if f.relative(i.Name) == remoteJob {
				return 1
			}
			return 0
		}
		return last(a) - last(b)
	})
	for _, info := range files {
		name := f.relative(info.Name)
		_, _, part := promptset.ParsePartName(name)
		if part || name == promptset.MetaName || strings.HasPrefix(name, jobstate.Folder+"/") {
			if err := storage.Remove(f.ctx, info.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// adopt gives the local state what other machines know of the job, where this one does not: what it is, and what those
// of the parts came to that mine says are this process'.
func (f *objectFolder) adopt(state *jobstate.State, mine func(part int) bool) error {
	there, err := f.job()
	if err != nil || there == nil {
		return err
	}
	if here := state.Job(); here == nil {
		if err := state.Begin(there); err != nil && !errors.Is(err, jobstate.ErrBegun) {
			return err
		}
	}
	if differences := there.Differences(state.Job()); len(differences) > 0 {
		return fmt.Errorf("the work folder %s is of another job than the one in %s: %s; remove it to begin anew",
			state.Dir(), storage.Redact(f.url), strings.Join(differences, "; "))
	}
	noted := map[int]bool{}
	note := func(b []byte) (part int, ok bool) {
		p, err := promptset.ParsePartSummary(b)
		return p.Part, err == nil
	}
	err = state.Parts(func(b []byte) {
		if part, ok := note(b); ok {
			noted[part] = true
		}
	})
	if err != nil {
		return err
	}
	summaries, err := storage.List(f.ctx, storage.Join(f.url, remoteParts))
	if err != nil {
		return err
	}
	for _, info := range summaries {
		part, ok := parseRemotePart(filepath.Base(f.relative(info.Name)))
		if !ok || noted[part] || !mine(part) {
			continue
		}
		text, err := f.read(f.relative(info.Name))
		if err != nil {
			return err
		}
		if err := state.AddPart(json.RawMessage(text)); err != nil {
			return err
		}
	}
	return nil
}

// job reads what job is there; nil is none.
func (f *objectFolder) job() (*jobstate.Description, error) {
	text, err := f.read(remoteJob)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	there, err := jobstate.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove what is there to begin anew, or choose another output",
			storage.Redact(storage.Join(f.url, remoteJob)), err)
	}
	return there, nil
}

func (f *objectFolder) read(name string) ([]byte, error) {
	file, err := storage.Open(f.ctx, storage.Join(f.url, name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if file.Size() > maxRemoteState {
		return nil, fmt.Errorf("%s has %d bytes, which is too much", storage.Redact(storage.Join(f.url, name)),
			file.Size())
	}
	return io.ReadAll(file.Reader())
}

// begin puts the job's description where other machines find it. It returns the job that is there then: d, or that of a
// machine that was faster.
func (f *objectFolder) begin(d *jobstate.Description) (*jobstate.Description, error) {
	err := f.put(remoteJob, d)
	if !errors.Is(err, fs.ErrExist) {
		return d, err
	}
	there, readErr := f.job()
	if there == nil {
		return nil, errors.Join(err, readErr)
	}
	return there, nil
}

func (f *objectFolder) put(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return storage.Put(f.ctx, storage.Join(f.url, name), bytes.NewReader(append(text, '\n')))
}
