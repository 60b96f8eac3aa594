package jobstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/quire/quire/data/vfs"
)

// Open locks the output folder, making it if need be, and reads what job is in it. The error is [ErrBusy] while another
// process has the lock.
func Open(files vfs.FS, output string) (*State, error) {
	dir := filepath.Join(output, Folder)
	s := &State{fs: files, root: dir, dir: dir, out: output}
	if err := files.MkdirAll(s.dir); err != nil {
		return nil, fmt.Errorf("cannot make the output folder: %w", err)
	}
	if err := s.take(files.Lock, filepath.Join(s.dir, lockName),
		output+": %w; wait for it, or choose another output folder"); err != nil {
		return nil, err
	}
	if err := s.read(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// take takes a lock; busy is the format of the error while another process has it.
func (s *State) take(lock func(string) (io.Closer, error), name, busy string) error {
	l, err := lock(name)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf(busy, ErrBusy)
	case err != nil:
		return fmt.Errorf("cannot lock the output folder %s: %w", s.out, err)
	}
	s.locks = append(s.locks, l)
	return nil
}

// Begin makes d the job of the folder, and of the store with [State.Share]. If another process has started a job
// meanwhile, the error is [ErrBegun], and [State.Job] is that job.
func (s *State) Begin(d *Description) error {
	if s.store == nil {
		return s.begin(d)
	}
	there, err := s.store.begin(d)
	if err != nil {
		return err
	}
	if err = s.begin(there); err == nil && there != d {
		err = ErrBegun
	}
	return err
}

func (s *State) begin(d *Description) error {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return s.alone(func() error {
		if s.dir != s.root {
			if err := s.read(); err != nil {
				return err
			}
			if s.job != nil {
				return ErrBegun
			}
		}
		if err := s.replace(filepath.Join(s.root, jobName), append(b, '\n')); err != nil {
			return err
		}
		return s.read() // which makes the name last
	})
}

// OpenShard is [Open] for one of several processes that share the folder, each with a lock, a journal and notes on
// parts of its own. Shards run at the same time, but not together with a run of the whole job or shards of a different
// count.
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
	// After it has its own lock: of two processes that start at the same time, one sees the other.
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

// alone does what only one shard may do at a time.
func (s *State) alone(do func() error) error {
	if s.dir == s.root { // it has the folder to itself
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

// beginWait is how long a shard waits for others that write the job's description.
const beginWait = time.Minute
