package xla

import "github.com/gomlx/go-xla/pjrt"

// executableCache keeps compiled programs in a folder.
type executableCache struct{ dir string }

func openCache(dir string, b *Backend) (*executableCache, error) { return &executableCache{dir}, nil }

func (c *executableCache) key(text []byte, device int) string { return "" }

func (c *executableCache) load(key string, b *Backend, device int) *pjrt.LoadedExecutable { return nil }

func (c *executableCache) store(key string, b *Backend, e *pjrt.LoadedExecutable) {}
