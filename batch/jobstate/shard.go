package jobstate

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/quire/quire/data/vfs"
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
