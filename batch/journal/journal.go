// Package journal keeps records in segment files so that a crash loses at most the last of them.
//
// A journal is a folder of segment files, written one after the other. Each record belongs to a row, which is a number
// that the caller chooses, and carries bytes that the journal does not interpret. A segment is removed when all of its
// rows are done.
//
// When [Journal.Append] returns, the operating system has the record, so the death of the process loses none. A record
// is on disk after at most [Options.SyncEvery] plus the time of an fsync. At most four times [Options.SyncBytes] are
// not yet on disk, so a loss of power loses no more than that.
//
// # Format
//
// A segment is journal-NNNNNN.log: a header of 52 bytes, then records. Numbers are little-endian.
//
//	header: "QUIREJ1\n", the journal's key (32 bytes), the segment's number (u64), CRC of these 48 bytes (u32)
//	record: length of its bytes (u32), CRC of all that follows and of the length (u32), row (u64), bytes
//
// The CRC is CRC-32C, seeded with the header's CRC, so a record of a different segment is not valid in this one.
// Reading stops at the first record that is not whole. The rest of the segment is dropped and reported as [Damage]. A
// resuming process starts a new segment, so nothing is ever written after a torn record.
package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"sync"
	"time"

	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/internal/plural"
)

// Key ties a journal to the job whose records it keeps. Segments with a different key are not read.
type Key [32]byte

// Options bound what a crash costs and how large files become. Zero values stand for the defaults, except in
// SyncEvery.
type Options struct {
	// SyncEvery is how long a record may wait for an fsync. 0 means no timer: Append calls fsync after every
	// SyncBytes.
	SyncEvery time.Duration
	// SyncBytes is how many bytes may wait before an fsync starts; default 4 MiB. Append blocks while four times as
	// many wait.
	SyncBytes int64
	// SegmentBytes is the size at which the next segment starts; default 64 MiB.
	SegmentBytes int64
}

const (
	headerSize = 52
	recordHead = 16
	// maxRecord bounds the size of a record's bytes.
	maxRecord = 1 << 30

	defaultSyncBytes    = 4 << 20
	defaultSegmentBytes = 64 << 20
)

var (
	magic = []byte("QUIREJ1\n")
	table = crc32.MakeTable(crc32.Castagnoli)
)

// Position is the place of a record in the journal.
type Position struct {
	segment uint32
	length  uint32 // length of the record's bytes
	offset  int64  // offset of the record's head in the segment
}

// Damage is the end of a segment that could not be read.
type Damage struct {
	File   string
	Offset int64 // bytes that were read before it
	Bytes  int64 // bytes that were dropped
	What   string
	Torn   bool // the end looks as a death of the process or a loss of power leaves it; else something changed it
}

func (d Damage) String() string {
	return fmt.Sprintf("%s: %s at byte %d; %s dropped", d.File, d.What, d.Offset,
		plural.Count(d.Bytes, "byte")+plural.Of(d.Bytes, " is", " are"))
}

// Journal is a journal that is open for writing, by one process at a time. Its methods may be called from several
// goroutines.
type Journal struct {
	fs      vfs.FS
	dir     string
	key     Key
	options Options

	mu       sync.Mutex
	synced   sync.Cond
	segments []*segment // ascending; the last one is open for writing if file is set
	file     vfs.File   // nil before the first record
	seed     uint32     // CRC of the file's header
	size     int64      // size of file in bytes
	unsynced int64      // bytes written to file since the last fsync
	syncing  bool
	named    bool // the folder was synced, so the file's name is durable
	next     uint32
	buffer   []byte
	err      error // the first failure; nothing is written after it

	kick, stop chan struct{}
	stopped    sync.WaitGroup

	reading lastRead
}

// lastRead is the segment that Read read last, which stays open.
type lastRead struct {
	mu     sync.Mutex // protects all fields below
	file   vfs.File   // nil if none is open
	number uint32
}

// close closes the segment. The caller holds mu.
func (l *lastRead) close() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

type segment struct {
	number  uint32
	lastRow int64 // the highest row of its records, or -1 if it has none
}

func segmentName(number uint32) string { return fmt.Sprintf("journal-%06d.log", number) }

// Append adds a record for a row. It returns when the operating system has the record.
func (j *Journal) Append(row int64, b []byte) error {
	_, err := j.Put(row, b)
	return err
}

// Put is Append, and returns the record's position for [Journal.Read].
func (j *Journal) Put(row int64, b []byte) (position Position, err error) {
	if int64(len(b)) > maxRecord {
		return position, fmt.Errorf("a record of %d bytes is too long for the journal; the limit is %d", len(b),
			maxRecord)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.err == nil && j.unsynced >= 4*j.options.SyncBytes {
		j.synced.Wait() // the disk is slower than the device: apply backpressure
	}
	if j.err != nil {
		return position, j.err
	}
	if j.file == nil || j.size >= j.options.SegmentBytes {
		if err := j.rotate(); err != nil {
			return position, j.fail(err)
		}
	}
	j.buffer = binary.LittleEndian.AppendUint32(j.buffer[:0], uint32(len(b)))
	j.buffer = binary.LittleEndian.AppendUint32(j.buffer, 0)
	j.buffer = binary.LittleEndian.AppendUint64(j.buffer, uint64(row))
	j.buffer = append(j.buffer, b...)
	binary.LittleEndian.PutUint32(j.buffer[4:], checksum(j.seed, j.buffer))
	s := j.segments[len(j.segments)-1]
	position = Position{segment: s.number, length: uint32(len(b)), offset: j.size}
	if err := j.write(j.buffer); err != nil {
		return position, j.fail(err)
	}
	s.lastRow = max(s.lastRow, row)
	if j.unsynced >= j.options.SyncBytes {
		if j.kick == nil {
			return position, j.fail(j.syncLocked())
		}
		select {
		case j.kick <- struct{}{}:
		default:
		}
	}
	return position, nil
}

// checksum returns the CRC of a record, without the four bytes of the CRC itself.
func checksum(seed uint32, record []byte) uint32 {
	return crc32.Update(crc32.Update(seed, table, record[:4]), table, record[8:])
}

// fail records the first failure. Nothing is written after it, because the state of the file after a failed fsync is
// unknown.
func (j *Journal) fail(err error) error {
	if err != nil && j.err == nil {
		j.err = fmt.Errorf("cannot write the journal: %w", err)
		j.synced.Broadcast()
	}
	return j.err
}

func (j *Journal) write(b []byte) error {
	n, err := j.file.Write(b)
	j.size += int64(n)
	j.unsynced += int64(n)
	return err
}

// rotate ends the current segment and starts the next one.
func (j *Journal) rotate() error {
	for j.syncing {
		j.synced.Wait()
	}
	if j.err != nil {
		return j.err
	}
	if err := j.endSegment(); err != nil {
		return err
	}
	number := j.next
	j.next++
	file, err := j.fs.Create(filepath.Join(j.dir, segmentName(number)))
	if err != nil {
		return err
	}
	j.file, j.size, j.named = file, 0, false
	j.segments = append(j.segments, &segment{number: number, lastRow: -1})
	header := appendHeader(nil, j.key, number)
	j.seed = crc32.Checksum(header, table)
	return j.write(header)
}

func appendHeader(b []byte, key Key, number uint32) []byte {
	b = append(append(b, magic...), key[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(number))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, table))
}

func (j *Journal) endSegment() error {
	if j.file == nil {
		return nil
	}
	err := j.syncLocked()
	if cerr := j.file.Close(); err == nil {
		err = cerr
	}
	j.file = nil
	return err
}

// syncLocked makes all records durable. It holds j.mu throughout.
func (j *Journal) syncLocked() error {
	if j.unsynced == 0 {
		return nil
	}
	err := j.file.Sync()
	if err == nil && !j.named {
		err = j.fs.SyncDir(j.dir)
	}
	if err == nil {
		j.named, j.unsynced = true, 0
	}
	return err
}

// Sync makes all records durable that were appended before the call.
func (j *Journal) Sync() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.syncing {
		j.synced.Wait()
	}
	if j.err != nil || j.file == nil {
		return j.err
	}
	return j.fail(j.syncLocked())
}

// background makes records durable while others are appended.
func (j *Journal) background() {
	defer j.stopped.Done()
	ticker := time.NewTicker(j.options.SyncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-j.stop:
			return
		case <-ticker.C:
		case <-j.kick:
		}
		j.mu.Lock()
		if j.err != nil || j.unsynced == 0 {
			j.mu.Unlock()
			continue
		}
		file, named, bytes := j.file, j.named, j.unsynced
		j.syncing = true
		j.mu.Unlock()
		err := file.Sync()
		if err == nil && !named {
			err = j.fs.SyncDir(j.dir)
		}
		j.mu.Lock()
		j.syncing = false
		if err != nil {
			j.fail(err)
		} else {
			j.named = true
			j.unsynced -= bytes
		}
		j.synced.Broadcast()
		j.mu.Unlock()
	}
}

// Drop removes the segments whose rows are all below the given one. The current segment is ended, so that it can be
// removed later.
func (j *Journal) Drop(below int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.syncing {
		j.synced.Wait()
	}
	if j.err != nil {
		return j.err
	}
	kept := j.segments[:0]
	for i, s := range j.segments {
		if s.lastRow >= below {
			kept = append(kept, s)
			continue
		}
		if j.file != nil && i == len(j.segments)-1 {
			// The segment is removed, so its unsynced bytes need no fsync.
			j.unsynced = 0
			if err := j.file.Close(); err != nil {
				return j.fail(err)
			}
			j.file = nil
		}
		if err := j.remove(s.number); err != nil {
			return j.fail(err)
		}
	}
	clear(j.segments[len(kept):])
	j.segments = kept
	// End a segment with rows on both sides here, so that it can be removed as soon as its later rows are done.
	if j.file != nil && below > 0 {
		return j.fail(j.endSegment())
	}
	return nil
}

func (j *Journal) remove(number uint32) error {
	j.reading.mu.Lock()
	defer j.reading.mu.Unlock()
	if j.reading.number == number {
		j.reading.close()
	}
	return j.fs.Remove(filepath.Join(j.dir, segmentName(number)))
}

// Close makes all records durable and closes the journal, which stays on disk. It returns the first failure.
func (j *Journal) Close() error {
	if j.stop != nil {
		close(j.stop)
		j.stopped.Wait()
		j.stop = nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		var err error
		if j.err == nil {
			err = j.endSegment()
		} else {
			err = j.file.Close()
			j.file = nil
		}
		j.fail(err)
	}
	j.reading.mu.Lock()
	defer j.reading.mu.Unlock()
	j.reading.close()
	if j.err != nil && !errors.Is(j.err, errClosed) {
		return j.err
	}
	j.err = errClosed
	return nil
}

var errClosed = errors.New("the journal is closed")
