package jobstate

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/quire/quire/vfs"
)

// Shard is one of several processes that do a job together. It takes the parts whose number mod Count is Index. The
// zero value and any shard with a Count of 1 stand for the whole job.
type Shard struct {
	Index, Count int
}

// MaxShards is the largest Count that [ParseShard] accepts. A queue may have more units.
const MaxShards = 99_999

// ErrShard reports that a text does not name a shard.
var ErrShard = errors.New("a shard is I/N: number I of N, from 0/N to N-1/N")

// ParseShard parses "I/N", such as "0/8", the first of eight.
func ParseShard(text string) (Shard, error) {
	index, count, ok := strings.Cut(text, "/")
	s := Shard{digits(index), digits(count)}
	if !ok || s.Index < 0 || s.Count < 1 || s.Count > MaxShards || s.Index >= s.Count {
		return Shard{}, fmt.Errorf("%q: %w, of which there may be %d", text, ErrShard, MaxShards)
	}
	return s, nil
}

// digits parses a number that is written with digits alone; it returns -1 for other texts.
func digits(text string) int {
	if len(text) == 0 || len(text) > 9 || strings.Trim(text, "0123456789") != "" {
		return -1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// String is the inverse of [ParseShard].
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// Whole reports whether the shard is the whole job.
func (s Shard) Whole() bool { return s.Count <= 1 }

// Has reports whether a part belongs to the shard.
func (s Shard) Has(part int) bool { return s.Whole() || part%s.Count == s.Index }

// Name returns the shard's name in file names, such as shard-00003-of-00008, with more digits if needed. It is empty
// for the whole job.
func (s Shard) Name() string {
	if s.Whole() {
		return ""
	}
	return fmt.Sprintf("shard-%05d-of-%05d", s.Index, s.Count)
}

var shardPattern = regexp.MustCompile(`^shard-(\d{5,9})-of-(\d{5,9})$`)

// parseName is the inverse of Name.
func parseName(name string) (s Shard, ok bool) {
	m := shardPattern.FindStringSubmatch(name)
	if m == nil {
		return s, false
	}
	s = Shard{digits(m[1]), digits(m[2])}
	return s, s.Index < s.Count && !s.Whole() && s.Name() == name
}

// ErrOtherShards reports that shards of a different count work on the job.
var ErrOtherShards = errors.New("shards of a different count work on this job")

// ErrBegun reports that another process started the job first.
var ErrBegun = errors.New("another process started the job")

// Shards lists the shards that have worked on the job in a state folder.
func Shards(files vfs.FS, dir string) ([]Shard, error) {
	names, err := files.List(dir)
	if err != nil {
		return nil, err
	}
	var all []Shard
	for _, name := range names {
		if s, ok := parseName(name); ok {
			all = append(all, s)
		}
	}
	return all, nil
}

// OpenShard is [Open] for one of several processes that share the folder, each with its own lock, journal and notes.
// Shards may run at the same time, but not together with a run of the whole job or with shards of a different count.
func OpenShard(files vfs.FS, output string, shard Shard) (*State, error) {
	if shard.Whole() {
		return Open(files, output)
	}
	s := &State{fs: files, root: filepath.Join(output, Folder), out: output}
	s.dir = filepath.Join(s.root, shard.Name())
	if err := files.MkdirAll(s.dir); err != nil {
		return nil, fmt.Errorf("cannot make the output folder: %w", err)
	}
	done := false
	defer func() {
		if !done {
			s.Close()
		}
	}()
	if err := s.take(files.LockShared, filepath.Join(s.root, lockName),
		fmt.Sprintf("%s: %%w, all of it; wait for it, or choose another output folder", output)); err != nil {
		return nil, err
	}
	if err := s.take(files.Lock, filepath.Join(s.dir, lockName),
		fmt.Sprintf("%s: %%w as shard %s", output, shard)); err != nil {
		return nil, err
	}
	// Look only after taking the own lock: if two processes start at the same time, at least one sees the other.
	others, err := Shards(files, s.root)
	if err != nil {
		return nil, fmt.Errorf("cannot look for other shards: %w", err)
	}
	for _, other := range others {
		if other.Count == shard.Count {
			continue
		}
		lock, err := files.LockShared(filepath.Join(s.root, other.Name(), lockName))
		if errors.Is(err, vfs.ErrLocked) {
			return nil, fmt.Errorf("%s: %w: shard %s runs, and this one is %s", output, ErrOtherShards, other, shard)
		} else if err != nil {
			return nil, fmt.Errorf("cannot look for other shards: %w", err)
		}
		lock.Close()
	}
	if err := s.read(); err != nil {
		return nil, err
	}
	done = true
	return s, nil
}

// beginWait is how long a shard waits for other shards to write the job's description.
const beginWait = time.Minute

// alone runs do, which only one shard may run at a time.
func (s *State) alone(do func() error) error {
	if s.dir == s.root { // a run of the whole job has no concurrent shards
		return do()
	}
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		lock, err := s.fs.Lock(filepath.Join(s.root, beginName))
		if errors.Is(err, vfs.ErrLocked) && time.Since(start) < beginWait {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot lock %s: %w", filepath.Join(s.root, beginName), err)
		}
		defer lock.Close()
		return do()
	}
}
