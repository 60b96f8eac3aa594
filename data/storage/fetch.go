package storage

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	fetchChunk = 8 << 20
	fetchAhead = 3
)

// Fetch downloads an object into the folder cache and returns its path there, immediately if this version is there
// already. It continues an earlier call's unfinished download; processes that fetch the same object wait for each
// other. The file is checked against the provider's MD5 or CRC-32C if there is one, and always against its size and
// version. A local name is returned unchanged.
func Fetch(ctx context.Context, name, cache string, progress Progress) (string, error) {
	l, err := parse(name)
	if err != nil {
		return "", failed("fetch", name, err)
	}
	if l.scheme == "" {
		return l.key, nil
	}
	o, info, err := l.lookUp(ctx)
	if err != nil {
		return "", failed("fetch", name, err)
	}
	file, err := o.fetch(ctx, l, info, cache, progress)
	return file, failed("fetch", name, err)
}

// FetchFolder downloads the objects below folder for which want holds, given their paths in it, into the folder
// cache. It returns a local folder that has them, and only them, under these paths. Such folders share objects of the
// same version.
func FetchFolder(ctx context.Context, folder, cache string, want func(file string) bool, progress Progress) (string,
	error) {
	return fetchFolder(ctx, folder, cache, want, func(name, _ string) (string, error) {
		return Fetch(ctx, name, cache, progress)
	})
}

// fetchFolder makes a folder of local files, which get returns for objects and their paths in the folder.
func fetchFolder(ctx context.Context, folder, cache string, want func(file string) bool,
	get func(name, file string) (string, error)) (string, error) {
	files, err := List(ctx, folder)
	if err != nil {
		return "", err
	}
	l, err := parse(folder)
	if err != nil {
		return "", failed("fetch", folder, err)
	}
	identity := sha256.New()
	fmt.Fprintln(identity, l.scheme, l.bucket, l.folderPrefix())
	paths := map[string]string{}
	var order []string
	for _, f := range files {
		file := strings.TrimPrefix(Path(f.Name), l.folderPrefix())
		if !want(file) {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(file)) {
			return "", failed("fetch", folder, fmt.Errorf("it has a file named %q", file))
		}
		if paths[file], err = get(f.Name, file); err != nil {
			return "", err
		}
		order = append(order, file)
		fmt.Fprintln(identity, file, paths[file])
	}
	dir := filepath.Join(cache, "folder-"+short(identity))
	for _, file := range order {
		if err := linkTo(paths[file], filepath.Join(dir, filepath.FromSlash(file))); err != nil {
			return "", failed("fetch", folder, err)
		}
	}
	if len(order) == 0 {
		err = failed("fetch", folder, errNoSuch)
	}
	return dir, err
}

func short(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil))[:24] }

// linkTo creates a relative link, which stays valid if the cache is moved.
func linkTo(target, link string) error {
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	rel, err := filepath.Rel(filepath.Dir(link), target)
	if err != nil {
		return err
	}
	if have, err := os.Readlink(link); err == nil && have == rel {
		return nil
	}
	temp := fmt.Sprintf("%s.tmp-%d", link, os.Getpid())
	if err := os.Symlink(rel, temp); err != nil {
		return err
	}
	return os.Rename(temp, link)
}

// fetch downloads one version of an object to CACHE/object-ID/NAME.
func (o *objectVersion) fetch(ctx context.Context, l location, info Info, cache string, progress Progress) (string,
	error) {
	dir, err := versionFolder(l, o, info, cache)
	if err != nil {
		return "", err
	}
	final := filepath.Join(dir, path.Base(l.key))
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock := flock.New(filepath.Join(dir, ".lock"))
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		return "", err
	}
	defer lock.Unlock()
	if _, err := os.Stat(final); err == nil { // another process fetched it meanwhile
		return final, nil
	}
	partial := filepath.Join(dir, ".partial")
	if err := o.download(ctx, partial, progress); err != nil {
		return "", err
	}
	if err := os.Rename(partial, final); err != nil {
		return "", err
	}
	return final, syncFolder(dir)
}

// versionFolder returns the cache folder of one version of an object.
func versionFolder(l location, o *objectVersion, info Info, cache string) (string, error) {
	base := path.Base(l.key)
	if base != filepath.Base(filepath.FromSlash(base)) || !filepath.IsLocal(base) {
		return "", errors.New("its name is not valid for a local file")
	}
	identity := sha256.New()
	fmt.Fprintln(identity, l.scheme, l.bucket, l.key, info.ETag, o.version.Generation, info.Size,
		info.ModTime.UTC().Format(time.RFC3339))
	return filepath.Join(cache, "object-"+short(identity)), nil
}

// errWrongSum reports that the fetched bytes are not the stored ones. They are discarded.
var errWrongSum = errors.New("the fetched bytes do not match the provider's checksum")

// download appends the missing bytes to the file at partial, and checks the whole.
func (o *objectVersion) download(ctx context.Context, partial string, progress Progress) (err error) {
	f, err := os.OpenFile(partial, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum, right := o.checksum()
	have, err := io.Copy(sum, io.LimitReader(f, o.version.size))
	if err != nil {
		return err
	}
	if err := f.Truncate(have); err != nil {
		return err
	}
	body := newStream(ctx, o, have, fetchChunk, fetchAhead)
	defer body.Close()
	report := func() {
		if progress != nil {
			progress(Redact(o.name), have, o.version.size)
		}
	}
	report()
	for buffer := make([]byte, 1<<20); ; {
		n, readErr := body.Read(buffer)
		if _, err := f.Write(buffer[:n]); err != nil {
			return err
		}
		sum.Write(buffer[:n])
		if have += int64(n); n > 0 {
			report()
		}
		if readErr == io.EOF {
			break
		}
		if readErr != nil {
			return readErr
		}
	}
	if have != o.version.size || !right() {
		return errors.Join(errWrongSum, f.Truncate(0))
	}
	return f.Sync()
}

// checksum returns a writer for the content, and a function that reports whether what was written is right.
func (o *objectVersion) checksum() (io.Writer, func() bool) {
	switch {
	case len(o.md5) == md5.Size:
		h := md5.New()
		return h, func() bool { return string(h.Sum(nil)) == string(o.md5) }
	case o.crc32c != nil:
		h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		return h, func() bool { return h.Sum32() == *o.crc32c }
	}
	return io.Discard, func() bool { return true }
}
