// Package mapped maps a weight file read-only into memory and returns the memory of its pages to the operating system
// on request, so that streaming a large file through the mapping does not keep it all resident.
package mapped

import (
	"fmt"
	"os"
	"unsafe"

	mmap "github.com/edsrzf/mmap-go"
)

// File is a read-only mapping of one whole file. The file must not be shortened while it is mapped: reading a page
// beyond the new end kills the process, as with every mapping, unless it is read within Guard.
type File struct {
	mapping mmap.MMap // nil for an empty file
}

// Open maps the file at path.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping stays valid without the descriptor
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() == 0 { // mmap rejects an empty mapping
		return &File{}, nil
	}
	m, err := mmap.Map(f, mmap.RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot map %s: %w", path, err)
	}
	return &File{mapping: m}, nil
}

// Bytes returns the whole file. It must not be written to and is invalid after Close.
func (f *File) Bytes() []byte { return f.mapping }

// Release hints to the operating system that the pages under part, a sub-slice of Bytes, are not needed in memory for
// now. Their contents stay valid: they are read from the file again when touched. The same holds for neighbours that
// share the first or last page. On systems without such a call, nothing happens.
func (f *File) Release(part []byte) {
	if len(part) == 0 || len(f.mapping) == 0 {
		return
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData([]byte(f.mapping))))
	start := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - base
	end := start + uintptr(len(part))
	if end > uintptr(len(f.mapping)) || start > end { // not part of this mapping
		return
	}
	page := uintptr(os.Getpagesize())
	start -= start % page
	dropPages(f.mapping[start:end])
}

// Close unmaps the file. Slices of Bytes must not be used afterwards. A second Close does nothing.
func (f *File) Close() error {
	if f.mapping == nil {
		return nil
	}
	err := f.mapping.Unmap()
	f.mapping = nil
	return err
}
