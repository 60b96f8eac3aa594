// Package jobstate keeps what another process needs to resume a job in the job's output folder: the description of the
// job, notes of its published parts, and a lock that one process holds at a time.
//
// The files are in the folder [Folder] below the output. Its name begins with an underscore so that readers of data
// sets skip it:
//
//	_job/lock        held while a process works on the job; the file stays
//	_job/job.json    the job's [Description], written before sampling starts, and again with each [Change]
//	_job/parts.log   a line for each part, on disk before the part is visible
//	_job/journal-*   the journal of what is not in a published part; see package journal
//
// If the output is in an object store, all of this is in a local folder, and job.json is in the store as well, for
// other machines: see [State.Share].
//
// Several processes may do a job together, each a [Shard] of it. They share job.json. Each has its own lock, notes and
// journal in a folder such as _job/shard-00003-of-00008.
package jobstate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/quire/quire/data/vfs"
)

// Folder is the name of the folder below the output.
const Folder = "_job"

const (
	lockName  = "lock"
	jobName   = "job.json"
	partsName = "parts.log"
	beginName = "begin" // lock of the shard that writes job.json

	// JobFile is the path of the job's description, relative to the output folder.
	JobFile = Folder + "/" + jobName
	// maxJob bounds how much of a job.json is read.
	maxJob = 1 << 30
)

// ErrBusy reports that another process works on the job.
var ErrBusy = errors.New("another process is working on this job")

// State is the state of the job in one output folder, or of a shard of it, locked for this process.
type State struct {
	fs    vfs.FS
	root  string // folder of the whole job's state
	dir   string // folder of this shard's state; root if the run does the whole job
	out   string
	locks []io.Closer
	job   *Description
	key   [sha256.Size]byte

	noted bool // the name of the notes' file is durable

	store *store // nil if the output is local
}

// Close gives the locks back.
func (s *State) Close() error {
	var err error
	for _, l := range slices.Backward(s.locks) {
		err = errors.Join(err, l.Close())
	}
	s.locks = nil
	return err
}

// Dir returns the folder of this process' own state, which also has the journal.
func (s *State) Dir() string { return s.dir }

// Job returns the job that the folder holds; nil if there is none. It must not be changed.
func (s *State) Job() *Description { return s.job }

// Key identifies the job: it is a hash of its description, as it was when the job started.
func (s *State) Key() [sha256.Size]byte { return s.key }

func (s *State) read() error {
	d, key, err := readJob(s.fs, s.out)
	if d == nil || err != nil {
		return err
	}
	s.job, s.key = d, key
	// The process that wrote job.json may have been killed before the name was durable.
	if err := s.fs.SyncDir(s.root); err != nil {
		return fmt.Errorf("cannot sync %s: %w", s.root, err)
	}
	return nil
}

// Refresh reads the job that the folder has now, if a shard found none before. With [State.Share], the store's job
// becomes the folder's, and must be the one that is in the folder, if any.
func (s *State) Refresh() error {
	if s.store != nil {
		return s.adopt()
	}
	if s.job != nil {
		return nil
	}
	return s.read()
}

func readFile(files vfs.FS, name string, most int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, fmt.Errorf("%s has %d bytes, more than the limit of %d", name, size, most)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}

// replace puts a file in the place of the one of that name, whole.
func (s *State) replace(name string, b []byte) error {
	err := s.write(name+".tmp", b)
	if err == nil {
		err = s.fs.Rename(name+".tmp", name)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}

func (s *State) write(name string, b []byte) error {
	f, err := s.fs.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Dirs lists the folders that may have a journal: the folder for runs of the whole job, and the folders of shards.
func (s *State) Dirs() ([]string, error) { return Dirs(s.fs, s.out) }

// Dirs lists the folders below an output that may have notes and a journal: the folder for runs of the whole job, and
// the folders of shards.
func Dirs(files vfs.FS, output string) ([]string, error) {
	root := filepath.Join(output, Folder)
	shards, err := Shards(files, root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot look for shards: %w", err)
	}
	dirs := []string{root}
	for _, shard := range shards {
		dirs = append(dirs, filepath.Join(root, shard.Name()))
	}
	return dirs, nil
}

// Clear removes the job's state. Remove what the job published and journaled first: without the description nobody
// knows whose files those are. A shard must not call it.
func (s *State) Clear() error {
	if s.store != nil {
		if err := s.store.clear(); err != nil {
			return err
		}
	}
	dirs, err := s.Dirs()
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) { // root, which has the description, comes last
		for _, name := range []string{partsName, jobName + ".tmp", jobName} {
			if err := s.fs.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("cannot clear the output folder: %w", err)
			}
		}
		if err := s.fs.SyncDir(dir); err != nil {
			return fmt.Errorf("cannot clear the output folder: %w", err)
		}
	}
	s.job, s.noted = nil, false
	return nil
}

var table = crc32.MakeTable(crc32.Castagnoli)

// AddPart appends a note on a part, as JSON, and makes it durable. The last note on a part is the valid one.
func (s *State) AddPart(summary any) error {
	b, err := json.Marshal(summary)
	if err != nil {
		return err
	}
	name := filepath.Join(s.dir, partsName)
	f, err := s.fs.Append(name)
	if err == nil {
		// The newline first ends a line that an earlier process may have left torn.
		_, err = f.Write(fmt.Appendf(nil, "\n%08x %s\n", crc32.Checksum(b, table), b))
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil && !s.noted {
		err = s.fs.SyncDir(s.dir) // the file's name may be new
		s.noted = err == nil
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}

// Parts calls each with every note of AddPart, whether this process, an earlier one or a concurrent one wrote it.
// Notes of one process come in order. Incomplete lines are skipped.
func (s *State) Parts(each func(summary []byte)) error {
	_, err := Parts(s.fs, s.out, each)
	return err
}

// OwnParts is [State.Parts] for the notes of this process, and of earlier processes that did the same shard.
func (s *State) OwnParts(each func(summary []byte)) error {
	_, err := readNotes(s.fs, s.dir, each)
	return err
}

// Parts is [State.Parts] without a lock. It also returns the incomplete lines, each as "FILE line N". The death of a
// process leaves such lines, for parts that were not published.
func Parts(files vfs.FS, output string, each func(summary []byte)) (torn []string, err error) {
	dirs, err := Dirs(files, output)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		some, err := readNotes(files, dir, each)
		torn = append(torn, some...)
		if err != nil {
			return torn, err
		}
	}
	return torn, nil
}

// readNotes reads the notes in one folder.
func readNotes(files vfs.FS, dir string, each func(summary []byte)) (torn []string, err error) {
	name := filepath.Join(dir, partsName)
	b, err := readFile(files, name, maxJob)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what parts there are: %w", err)
	}
	number := 0
	for line := range strings.Lines(string(b)) {
		number++
		sum, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		want, err := strconv.ParseUint(sum, 16, 32)
		switch {
		case ok && err == nil && strings.HasSuffix(line, "\n") &&
			crc32.Checksum([]byte(text), table) == uint32(want):
			each([]byte(text))
		case line != "\n":
			torn = append(torn, fmt.Sprintf("%s line %d", name, number))
		}
	}
	return torn, nil
}

// Change replaces the job of the folder by d. Its journal stays valid, unless newKey is true: then the job gets a new
// key. It takes the lock of the whole job.
func (s *State) Change(d *Description, newKey bool) error {
	if s.dir != s.root || s.store != nil {
		return errors.New("a job can only be changed by one process, with a local output")
	}
	next := *d
	if next.Key = hex.EncodeToString(s.key[:]); newKey {
		next.Key = ""
	}
	b, err := json.MarshalIndent(&next, "", "  ")
	if err != nil {
		return err
	}
	if err := s.replace(filepath.Join(s.root, jobName), append(b, '\n')); err != nil {
		return err
	}
	return s.read() // reading makes the name last
}

// Read reads what job an output folder holds, without a lock; nil if there is none.
func Read(files vfs.FS, output string) (*Description, error) {
	d, _, err := readJob(files, output)
	return d, err
}

// ReadKey is [Read] with the job's key, which is [State.Key].
func ReadKey(files vfs.FS, output string) (*Description, [sha256.Size]byte, error) {
	return readJob(files, output)
}

func readJob(files vfs.FS, output string) (d *Description, key [sha256.Size]byte, err error) {
	name := filepath.Join(output, Folder, jobName)
	b, err := readFile(files, name, maxJob)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, key, nil
	}
	if err != nil {
		return nil, key, fmt.Errorf("cannot read what job is in %s: %w", output, err)
	}
	if d, err = Parse(b); err != nil {
		return nil, key, fmt.Errorf("%s is damaged (%w): start over, or choose another output folder", name, err)
	}
	if d.Key == "" {
		return d, sha256.Sum256(b), nil
	}
	if raw, err := hex.DecodeString(d.Key); err != nil || copy(key[:], raw) != len(key) || len(raw) != len(key) {
		return nil, key, fmt.Errorf("%s is damaged (its key is %q): start over, or choose another output folder", name,
			d.Key)
	}
	return d, key, nil
}
