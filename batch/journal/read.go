package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/quire/quire/data/vfs"
)

var segmentPattern = regexp.MustCompile(`^journal-(\d{6,9})\.log$`)

// ErrDamaged reports that a record is not what was written.
var ErrDamaged = errors.New("a journal record is damaged")

// The ways a segment ends after its writer died.
const (
	headerCut   = "the header is cut off"
	recordCut   = "a record is cut off"
	recordShort = "a record is cut off or has a wrong length"
)

var tornEnds = []string{headerCut, recordCut, recordShort}

// Open reads the journal in a folder, creating the folder if needed, and returns the journal for writing. It calls
// each with every record in the order in which they were written. The bytes are valid during the call; an error of
// each ends the reading. Segments with a different key are reported as damage of the whole segment.
func Open(fs vfs.FS, dir string, key Key, options Options,
	each func(row int64, b []byte, position Position) error) (*Journal, []Damage, error) {
	if options.SyncBytes == 0 {
		options.SyncBytes = defaultSyncBytes
	}
	if options.SegmentBytes == 0 {
		options.SegmentBytes = defaultSegmentBytes
	}
	j := &Journal{fs: fs, dir: dir, key: key, options: options, next: 1}
	j.synced.L = &j.mu
	if err := fs.MkdirAll(dir); err != nil {
		return nil, nil, fmt.Errorf("cannot create the journal folder: %w", err)
	}
	numbers, err := list(fs, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list the journal: %w", err)
	}
	var damages []Damage
	for _, n := range numbers {
		s := &segment{number: n, lastRow: -1}
		damage, err := j.scan(s, each)
		if err != nil {
			return nil, nil, err
		}
		if damage != nil {
			damages = append(damages, *damage)
		}
		j.segments = append(j.segments, s)
		j.next = n + 1
	}
	if len(numbers) > 0 {
		if err := j.settle(numbers[len(numbers)-1]); err != nil {
			return nil, nil, fmt.Errorf("cannot sync the journal: %w", err)
		}
	}
	if options.SyncEvery > 0 {
		j.kick, j.stop = make(chan struct{}, 1), make(chan struct{})
		j.stopped.Add(1)
		go j.background()
	}
	return j, damages, nil
}

// settle makes the last segment durable. Its writer may have been killed before it did so, and the records read from
// it count as done. Earlier segments were synced before the next one was started.
func (j *Journal) settle(number uint32) error {
	f, err := j.fs.Append(filepath.Join(j.dir, segmentName(number)))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return j.fs.SyncDir(j.dir)
}

// list returns the numbers of the segments in a folder, in order.
func list(fs vfs.FS, dir string) ([]uint32, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint32
	for _, name := range names {
		if m := segmentPattern.FindStringSubmatch(name); m != nil {
			if n, err := strconv.ParseUint(m[1], 10, 31); err == nil && segmentName(uint32(n)) == name {
				numbers = append(numbers, uint32(n)) // names sort like their numbers, up to 999999
			}
		}
	}
	return numbers, nil
}

// Clear removes all segments in a folder, regardless of their contents.
func Clear(fs vfs.FS, dir string) error {
	numbers, err := list(fs, dir)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if err := fs.Remove(filepath.Join(dir, segmentName(n))); err != nil {
			return err
		}
	}
	return nil
}

// Check reads a folder as [Open] does, but changes nothing. It may run while a journal is open there; what is being
// written then may be reported as torn. A folder that does not exist has no records.
func Check(files vfs.FS, dir string, key Key, each func(row int64, b []byte) error) ([]Damage, error) {
	s, damages, err := Look(files, dir, key, func(row int64, b []byte, _ Position) error { return each(row, b) })
	if err != nil {
		return damages, err
	}
	return damages, s.Close()
}

// Snapshot is the content of a journal at one time. It keeps the segments open, so they can be read after they are
// removed because their rows are in a part.
type Snapshot struct {
	dir   string
	key   Key
	files map[uint32]vfs.File
}

// Look is [Check], and the records can be read again afterwards. It takes no lock.
func Look(files vfs.FS, dir string, key Key,
	each func(row int64, b []byte, position Position) error) (*Snapshot, []Damage, error) {
	s := &Snapshot{dir: dir, key: key, files: map[uint32]vfs.File{}}
	numbers, err := list(files, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list the journal: %w", err)
	}
	var damages []Damage
	for _, n := range numbers {
		name := filepath.Join(dir, segmentName(n))
		file, err := files.Open(name)
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile: its rows are in parts
			continue
		}
		var damage *Damage
		if err != nil {
			err = fmt.Errorf("cannot read the journal: %w", err)
		} else {
			s.files[n] = file
			damage, err = scan(file, name, key, n, each)
		}
		if err != nil {
			return nil, damages, errors.Join(err, s.Close())
		}
		if damage != nil {
			damages = append(damages, *damage)
		}
	}
	return s, damages, nil
}

// Read returns the bytes of a record that Look found.
func (s *Snapshot) Read(position Position) ([]byte, error) {
	return readRecord(s.files[position.segment], s.dir, s.key, position)
}

// Close closes the snapshot's segments.
func (s *Snapshot) Close() (err error) {
	for _, file := range s.files {
		err = errors.Join(err, file.Close())
	}
	return err
}

// scan reads a segment and adds its records to it.
func (j *Journal) scan(s *segment, each func(row int64, b []byte, position Position) error) (*Damage, error) {
	name := filepath.Join(j.dir, segmentName(s.number))
	f, err := j.fs.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the journal: %w", err)
	}
	defer f.Close()
	return scan(f, name, j.key, s.number, func(row int64, b []byte, position Position) error {
		s.lastRow = max(s.lastRow, row)
		return each(row, b, position)
	})
}

// scan reads the segment with this name and number.
func scan(f vfs.File, name string, key Key, number uint32,
	each func(row int64, b []byte, position Position) error) (*Damage, error) {
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("cannot read the journal: %w", err)
	}
	end, what, err := readSegment(io.NewSectionReader(f, 0, size), size, key, number,
		func(row int64, b []byte, offset int64) error {
			return each(row, b, Position{number, uint32(len(b)), offset})
		})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if what == "" {
		return nil, nil
	}
	return &Damage{File: name, Offset: end, Bytes: size - end, What: what, Torn: slices.Contains(tornEnds, what)}, nil
}

// readSegment reads the records of a segment of size bytes up to the first incomplete one. It returns the offset
// where it stopped and what is wrong there, which is "" at the end of the segment. An error comes from each, or from
// a read that failed for a reason other than the bytes.
func readSegment(r io.Reader, size int64, key Key, number uint32,
	each func(row int64, b []byte, offset int64) error) (end int64, what string, err error) {
	in := newPeeker(r)
	header, err := in.take(min(headerSize, size))
	if err != nil {
		return 0, "", err
	}
	switch want := appendHeader(nil, key, number); {
	case len(header) < headerSize:
		return 0, headerCut, nil
	case !bytes.Equal(header[:len(magic)], magic) ||
		binary.LittleEndian.Uint32(header[headerSize-4:]) != crc32.Checksum(header[:headerSize-4], table):
		return 0, "the header is not one", nil
	case !bytes.Equal(header, want):
		return 0, "it belongs to a different job or segment", nil
	}
	seed := crc32.Checksum(header, table)
	for offset := int64(headerSize); ; {
		left := size - offset
		switch {
		case left == 0:
			return offset, "", nil
		case left < recordHead:
			return offset, recordCut, nil
		}
		head, err := in.take(recordHead)
		if err != nil {
			return offset, "", err
		}
		length := int64(binary.LittleEndian.Uint32(head))
		if length > maxRecord || length > left-recordHead {
			return offset, recordShort, nil
		}
		// head is the start of record: more returns both as one piece, and never reads past the size of the file.
		record, err := in.more(length)
		if err != nil {
			return offset, "", err
		}
		row := int64(binary.LittleEndian.Uint64(record[8:]))
		if binary.LittleEndian.Uint32(record[4:]) != checksum(seed, record) || row < 0 {
			return offset, "a record has a wrong checksum", nil
		}
		if err := each(row, record[recordHead:], offset); err != nil {
			return offset, "", err
		}
		offset += int64(len(record))
	}
}

// peeker reads pieces whose lengths are known to be available.
type peeker struct {
	r      io.Reader
	buffer []byte // bytes read ahead
	from   int
	piece  int
}

func newPeeker(r io.Reader) *peeker { return &peeker{r: r, buffer: make([]byte, 0, 256<<10)} }

// take returns the next n bytes, valid until the next call to take.
func (p *peeker) take(n int64) ([]byte, error) {
	p.from += p.piece
	p.piece = 0
	return p.more(n)
}

// more returns the last piece extended by n bytes.
func (p *peeker) more(n int64) ([]byte, error) {
	p.piece += int(n)
	if p.from+p.piece > len(p.buffer) {
		have := copy(p.buffer[:cap(p.buffer)], p.buffer[p.from:])
		p.from = 0
		if p.piece > cap(p.buffer) {
			grown := make([]byte, p.piece)
			copy(grown, p.buffer[:have])
			p.buffer = grown
		}
		read, err := io.ReadAtLeast(p.r, p.buffer[have:cap(p.buffer)], p.piece-have)
		p.buffer = p.buffer[:have+read]
		if err != nil {
			return nil, err
		}
	}
	return p.buffer[p.from : p.from+p.piece], nil
}

// Read returns the bytes of a record that Open found or Put added. It may be called while records are appended.
func (j *Journal) Read(position Position) ([]byte, error) {
	j.reading.mu.Lock()
	defer j.reading.mu.Unlock()
	if j.reading.file == nil || j.reading.number != position.segment {
		f, err := j.fs.Open(filepath.Join(j.dir, segmentName(position.segment)))
		if err != nil {
			return nil, fmt.Errorf("cannot read the journal: %w", err)
		}
		j.reading.close()
		j.reading.file, j.reading.number = f, position.segment
	}
	return readRecord(j.reading.file, j.dir, j.key, position)
}

func readRecord(from vfs.File, dir string, key Key, position Position) ([]byte, error) {
	record := make([]byte, recordHead+int64(position.length))
	if n, err := from.ReadAt(record, position.offset); n < len(record) {
		return nil, fmt.Errorf("cannot read the journal: %w", err)
	}
	seed := crc32.Checksum(appendHeader(nil, key, position.segment), table)
	if binary.LittleEndian.Uint32(record[4:]) != checksum(seed, record) {
		return nil, fmt.Errorf("%s, byte %d: %w", filepath.Join(dir, segmentName(position.segment)), position.offset,
			ErrDamaged)
	}
	return record[recordHead:], nil
}
