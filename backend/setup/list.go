package setup

import "fmt"

// State reports whether an item can be used.
type State string

// The states of an item.
const (
	OK      State = "ok"      // installed; pinned files were read and their digest is right
	Damaged State = "damaged" // a pinned file whose content differs from the pinned one
	Missing State = "missing"
)

// Entry is an item of [List].
type Entry struct {
	Name    string `json:"name"`  // as in "sample setup NAME"
	Title   string `json:"title"` // for people
	State   State  `json:"state"`
	Path    string `json:"path,omitempty"`
	Size    int64  `json:"size,omitempty"`   // bytes
	Source  string `json:"source,omitempty"` // how it was found: cache, go-xla, site-packages, a variable
	Problem string `json:"problem,omitempty"`
}

// List returns, for every plugin and model, whether and where it is installed. It reads pinned files completely to
// check them.
func List() ([]Entry, error) {
	root, err := CacheDir()
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, platform := range Platforms() {
		e := Entry{Name: platform, Title: cpuPlugin.Title, State: OK}
		if a, ok := accelerators[platform]; ok {
			e.Title = a.title
		}
		e.Path, e.Source, err = findPlugin(platform)
		e.found(err)
		if platform == cpuPlugin.Name {
			e.check(root, cpuPlugin)
		}
		entries = append(entries, e)
	}
	for _, a := range models {
		e := Entry{Name: a.Name, Title: a.Title, State: OK, Source: "cache"}
		e.Path, err = FindModel(a.Name)
		e.found(err)
		e.check(root, a)
		entries = append(entries, e)
	}
	return entries, nil
}

func (e *Entry) found(err error) {
	switch {
	case err == nil:
		e.Size = sizeOf(e.Path)
	case isMissing(err):
		e.State, e.Source = Missing, ""
	default: // a variable that does not name a file
		e.State, e.Problem = Missing, err.Error()
	}
}

// check compares the digest of a pinned file with the pinned one.
func (e *Entry) check(root string, a asset) {
	if e.State != OK || e.Source != "cache" || !a.sizeOK(a.path(root)) {
		return
	}
	e.Size = a.Size
	if err := checkDigest(a.path(root), a.SHA256); err != nil {
		e.State, e.Problem = Damaged, fmt.Sprintf("%v; remove it and run: sample setup %s", err, a.Name)
	}
}
