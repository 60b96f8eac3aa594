// Package programcache keeps compiled programs, and what is known of programs that run nowhere, in a folder.
package programcache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Cache is a folder with one file per entry. The file's name is a hash of all that the result of compiling depends on.
// The program of an entry that is damaged or that the plugin refuses is compiled again. A folder that can't be written
// costs only the time to compile.
type Cache struct {
	dir string
	// machine is the part of the key that all programs of a backend share.
	machine []byte
}

const (
	// magic is how an entry begins. The SHA-256 of the content follows, then the content.
	magic  = "quire executable 1\n"
	suffix = ".pjrt"
	// kept is how long an entry is kept after its last use.
	kept = 30 * 24 * time.Hour
	// temporaryKept is how long the temporary file of a writer that died is kept.
	temporaryKept = time.Hour
)

// Open returns the cache in a folder that exists, and removes what is too old.
func Open(dir string, machine []byte) *Cache {
	c := &Cache{dir: dir, machine: machine}
	c.prune(time.Now())
	return c
}

// Key returns the key of a program for devices. A program that runs on any one device has none.
func (c *Cache) Key(text []byte, devices []int) string {
	h := sha256.New()
	h.Write(c.machine)
	switch len(devices) {
	case 0:
		fmt.Fprintln(h, "device -1")
	case 1:
		fmt.Fprintf(h, "device %d\n", devices[0])
	default:
		fmt.Fprintf(h, "devices %v\n", devices)
	}
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// Path returns the file of an entry.
func (c *Cache) Path(key string) string { return filepath.Join(c.dir, key+suffix) }

// Read returns the content of an entry, or nil if there is none or it is damaged.
func (c *Cache) Read(key string) []byte {
	path := c.Path(key)
	entry, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	body, ok := bytes.CutPrefix(entry, []byte(magic))
	if ok && len(body) > sha256.Size {
		if sum := sha256.Sum256(body[sha256.Size:]); bytes.Equal(sum[:], body[:sha256.Size]) {
			now := time.Now()
			_ = os.Chtimes(path, now, now) // for prune
			return body[sha256.Size:]
		}
	}
	slog.Warn("compiled program in the cache is damaged, compiling again", "file", path)
	return nil
}

// Has reports whether there is an entry.
func (c *Cache) Has(key string) bool { _, err := os.Stat(c.Path(key)); return err == nil }

// Store keeps what serialize returns. It writes a temporary file and renames it, so that no reader sees a part of an
// entry. Failures are logged.
func (c *Cache) Store(key string, serialize func() ([]byte, error)) {
	serialized, err := serialize()
	if err != nil {
		slog.Info("compiled program is not kept: the plugin can't serialize it", "err", err)
		return
	}
	if err := c.write(c.Path(key), serialized); err != nil {
		slog.Warn("compiled program is not kept", "err", err)
	}
}

func (c *Cache) write(path string, serialized []byte) error {
	f, err := os.CreateTemp(c.dir, "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	sum := sha256.Sum256(serialized)
	_, err = io.Copy(f, io.MultiReader(strings.NewReader(magic), bytes.NewReader(sum[:]),
		bytes.NewReader(serialized)))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// prune removes entries that have not been used for long, and the temporary files of writers that died.
func (c *Cache) prune(now time.Time) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		limit := kept
		switch {
		case strings.HasPrefix(entry.Name(), "new-"):
			limit = temporaryKept
		case !strings.HasSuffix(entry.Name(), suffix):
			continue // not ours
		}
		if info, err := entry.Info(); err == nil && now.Sub(info.ModTime()) > limit {
			_ = os.Remove(filepath.Join(c.dir, entry.Name()))
		}
	}
}
