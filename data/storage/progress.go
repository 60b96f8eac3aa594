package storage

import (
	"fmt"
	"io"
	"time"
)

// Progress is called with how much of a file has been fetched; it may be nil.
type Progress func(name string, done, total int64)

// progressEvery is the time between lines about the same download.
const progressEvery = 5 * time.Second

// ProgressLines writes lines about downloads to w.
func ProgressLines(w io.Writer) Progress {
	last := time.Now()
	return func(name string, done, total int64) {
		if done > 0 && time.Since(last) >= progressEvery {
			last = time.Now()
			fmt.Fprintf(w, "fetching %s: %d of %d MB\n", name, done>>20, total>>20)
		}
	}
}
