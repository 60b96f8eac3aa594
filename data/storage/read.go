package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/quire/quire/data/storage/object"
)

// File is an open file. It is safe for concurrent use.
type File struct {
	info   Info
	ctx    context.Context
	local  *os.File
	object *objectVersion
	blocks *blocks
}

// objectVersion is one version of an object.
type objectVersion struct {
	name    string
	key     string
	bucket  object.Bucket
	version pinned
	md5     []byte // MD5 of the whole object; nil if the provider has none
	crc32c  *uint32
	encoded string // Content-Encoding
}

// Open opens a file for reading. ctx bounds all reads.
func Open(ctx context.Context, name string) (*File, error) {
	l, err := parse(name)
	if err != nil {
		return nil, failed("open", name, err)
	}
	if l.scheme == "" {
		return openLocal(ctx, name, l.key)
	}
	o, info, err := l.lookUp(ctx)
	if err != nil {
		return nil, failed("open", name, err)
	}
	// Compressed bytes that are named like uncompressed ones would be misread.
	if o.encoded != "" && o.encoded != "identity" && o.encoded != "aws-chunked" && !compressedName(l.key) {
		return nil, failed("open", name,
			fmt.Errorf(
				"it is stored with Content-Encoding %s; name it with the extension of that compression, or store it "+
					"plain", o.encoded))
	}
	return &File{info: info, ctx: ctx, object: o, blocks: newBlocks(o)}, nil
}

func compressedName(key string) bool {
	key = strings.ToLower(key)
	return strings.HasSuffix(key, ".gz") || strings.HasSuffix(key, ".zst")
}

func openLocal(ctx context.Context, name, path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, failed("open", name, pathless(err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, failed("open", name, pathless(err))
	}
	return &File{info: Info{Name: name, Size: info.Size(), ModTime: info.ModTime()}, ctx: ctx, local: f}, nil
}

// lookUp returns the object at a location.
func (l location) lookUp(ctx context.Context) (*objectVersion, Info, error) {
	if l.key == "" || strings.HasSuffix(l.key, "/") {
		return nil, Info{}, errors.New("it is a folder, not an object")
	}
	bucket, err := l.open(ctx)
	if err != nil {
		return nil, Info{}, err
	}
	var attrs object.Attributes
	err = again(ctx, func(a attempt) (err error) {
		attrs, err = bucket.Attributes(a.ctx, l.key)
		return err
	})
	if err != nil {
		return nil, Info{}, reason(err)
	}
	o := &objectVersion{name: l.String(), key: l.key, bucket: bucket, version: pinned{attrs.Version, attrs.Size},
		md5: attrs.MD5, crc32c: attrs.CRC32C, encoded: attrs.ContentEncoding}
	return o, Info{Name: l.String(), Size: attrs.Size, ModTime: attrs.ModTime, ETag: attrs.ETag}, nil
}

// Info describes the file as of Open.
func (f *File) Info() Info { return f.info }

// Size returns the file's length in bytes.
func (f *File) Size() int64 { return f.info.Size }

// Version changes when the file is written again: it is an object's ETag, or the modification time if there is no
// ETag, as for local files.
func (f *File) Version() string {
	if f.info.ETag != "" {
		return f.info.ETag
	}
	return f.info.ModTime.UTC().Format(time.RFC3339Nano)
}

// ReadAt reads len(p) bytes at offset, or fewer at the end of the file, with io.EOF. Small reads of an object are
// served from blocks that are requested together; reads that continue where earlier ones stopped make the requests
// larger.
func (f *File) ReadAt(p []byte, offset int64) (int, error) {
	if f.local != nil {
		return f.local.ReadAt(p, offset)
	}
	if offset < 0 {
		return 0, failed("read", f.info.Name, fmt.Errorf("offset %d is negative", offset))
	}
	n, err := f.blocks.readAt(f.ctx, p, offset)
	if err != nil && err != io.EOF {
		err = failed("read", f.info.Name, err)
	}
	return n, err
}

// ReadRange reads exactly len(p) bytes at offset, for an object by a separate request: nothing is read ahead or kept.
func (f *File) ReadRange(p []byte, offset int64) error {
	if f.local != nil {
		n, err := f.local.ReadAt(p, offset)
		if n == len(p) {
			return nil
		}
		return failed("read", f.info.Name, pathless(err))
	}
	if offset < 0 || int64(len(p)) > f.info.Size-offset {
		return failed("read", f.info.Name, fmt.Errorf("it has %d bytes, but %d from byte %d on were requested",
			f.info.Size,
			len(p), offset))
	}
	if len(p) == 0 {
		return nil
	}
	return failed("read", f.info.Name, f.object.fill(f.ctx, p, offset))
}

// Reader returns a reader of the whole file from its start that reads ahead, at most 12 MiB. Several readers of a
// file are independent.
func (f *File) Reader() io.ReadCloser {
	if f.local != nil {
		return io.NopCloser(io.NewSectionReader(f.local, 0, f.info.Size))
	}
	return newStream(f.ctx, f.object, 0, streamChunk, streamAhead)
}

// ReadFile reads a whole small file; more than most bytes are an error.
func ReadFile(ctx context.Context, name string, most int64) ([]byte, error) {
	file, err := Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if file.Size() > most {
		return nil, failed("read", name, fmt.Errorf("it has %d bytes, more than the limit of %d", file.Size(),
			most))
	}
	r := file.Reader()
	defer r.Close()
	return io.ReadAll(r)
}

// Close ends all use of the file.
func (f *File) Close() error {
	if f.local != nil {
		return f.local.Close()
	}
	f.blocks.drop()
	return nil
}

// fill reads exactly len(p) bytes at offset.
func (o *objectVersion) fill(ctx context.Context, p []byte, offset int64) error {
	err := again(ctx, func(a attempt) error {
		c, err := o.bucket.Read(a.ctx, o.key, o.version.Version, offset, int64(len(p)))
		if err != nil {
			return changed(err)
		}
		defer c.Body.Close()
		if err := o.version.check(c, offset); err != nil {
			return err
		}
		n, err := a.fill(p, c.Body)
		p, offset = p[n:], offset+int64(n)
		return err
	})
	return reason(err)
}

// fill reads all of p, and returns how many bytes arrived.
func (a attempt) fill(p []byte, r io.Reader) (came int, err error) {
	for came < len(p) {
		n, err := r.Read(p[came:])
		if came += n; n > 0 {
			a.progress()
		}
		if err == io.EOF && came < len(p) {
			return came, io.ErrUnexpectedEOF // the body was truncated on the way
		}
		if err != nil && err != io.EOF {
			return came, err
		}
	}
	return came, nil
}

const (
	streamChunk = 4 << 20
	streamAhead = 2
)

// stream reads an object from an offset to its end, with several chunks requested in advance.
type stream struct {
	o      *objectVersion
	ctx    context.Context
	cancel context.CancelFunc
	chunk  int64
	ahead  int
	next   int64 // offset of the first byte that was not requested
	coming []*part
	rest   []byte // rest of the current chunk
	err    error
}

type part struct {
	data []byte
	err  error
	done chan struct{}
}

func newStream(ctx context.Context, o *objectVersion, offset, chunk int64, ahead int) *stream {
	s := &stream{o: o, chunk: chunk, ahead: ahead, next: offset}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		if s.err = s.ctx.Err(); s.err != nil {
			continue
		}
		for s.next < s.o.version.size && len(s.coming) <= s.ahead {
			s.start()
		}
		if len(s.coming) == 0 {
			s.err = io.EOF
			continue
		}
		first := s.coming[0]
		s.coming = s.coming[1:]
		<-first.done
		if s.rest, s.err = first.data, failed("read", s.o.name, first.err); s.err != nil {
			s.rest = nil
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stream) start() {
	c := &part{data: make([]byte, min(s.chunk, s.o.version.size-s.next)), done: make(chan struct{})}
	offset := s.next
	s.next += int64(len(c.data))
	s.coming = append(s.coming, c)
	go func() {
		defer close(c.done)
		c.err = s.o.fill(s.ctx, c.data, offset)
	}()
}

// Close cancels pending requests and waits for them.
func (s *stream) Close() error {
	s.cancel()
	for _, c := range s.coming {
		<-c.done
	}
	s.coming, s.rest = nil, nil
	if s.err == nil {
		s.err = fs.ErrClosed
	}
	return nil
}
