package object

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a bucket in the memory of this process, for tests.
type Memory struct {
	mu      sync.Mutex
	objects map[string]stored
	serial  int // number of the last object, so that all ETags differ
}

type stored struct {
	Attributes
	data []byte
}

// NewMemory returns an empty bucket.
func NewMemory() *Memory { return &Memory{objects: map[string]stored{}} }

// Set creates or replaces an object, as another program would.
func (m *Memory) Set(key string, data []byte, encoding string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(key, data, Attributes{ContentEncoding: encoding})
}

func (m *Memory) set(key string, data []byte, a Attributes) {
	m.serial++
	sum := md5.Sum(data)
	a.Size, a.ModTime, a.MD5 = int64(len(data)), time.Now(), sum[:]
	a.ETag = fmt.Sprintf(`"%x-%x"`, a.ModTime.UnixNano(), m.serial)
	m.objects[key] = stored{a, bytes.Clone(data)}
}

var (
	errNotFound = &Error{Code: NotFound, Err: fs.ErrNotExist}
	errExists   = &Error{Code: Precondition, Err: errors.New("the key has an object already")}
	errReplaced = &Error{Code: Precondition, Err: errors.New("the object has a different version")}
)

// Attributes implements Bucket.
func (m *Memory) Attributes(_ context.Context, key string) (Attributes, error) {
	o, err := m.find(key)
	return o.Attributes, err
}

func (m *Memory) find(key string) (stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return o, errNotFound
	}
	return o, nil
}

// Read implements Bucket.
func (m *Memory) Read(_ context.Context, key string, version Version, offset, length int64) (*Content, error) {
	o, err := m.find(key)
	if err != nil {
		return nil, err
	}
	if o.Version != version {
		return nil, errReplaced
	}
	body := io.NopCloser(io.NewSectionReader(bytes.NewReader(o.data), offset, length))
	return &Content{Body: body, Offset: offset, Size: o.Size, ETag: o.ETag}, nil
}

// List implements Bucket. A token is the last key of the previous page.
func (m *Memory) List(_ context.Context, prefix, token string, limit int) (page []Entry, next string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		if !strings.HasPrefix(key, prefix) || key <= token {
			continue
		}
		if len(page) == limit {
			return page, page[limit-1].Key, nil
		}
		page = append(page, Entry{key, m.objects[key].Size, m.objects[key].ModTime})
	}
	return page, "", nil
}

// Create implements Bucket.
func (m *Memory) Create(ctx context.Context, key string, body io.Reader, metadata map[string]string) error {
	data, err := io.ReadAll(body)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.objects[key]; ok {
		return errExists
	}
	m.set(key, data, Attributes{Metadata: maps.Clone(metadata)})
	return nil
}

// Delete implements Bucket.
func (m *Memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}
