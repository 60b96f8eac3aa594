package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/models"
)

// placeKind describes where a file or folder of the command line may be.
type placeKind int

const (
	OnThisMachine placeKind = iota
	Anywhere                // here or in an object store
	ModelPlace              // anywhere, or a model of the hub
	InputPlace              // anywhere, or a dataset of the hub
)

// PlaceError describes what is wrong with the name of a file or folder. The name is without what may be secret in it.
type PlaceError struct {
	Name string
	Err  error
}

func (e *PlaceError) Error() string { return fmt.Sprintf("%s: %v", e.Name, e.Err) }

func (e *PlaceError) Unwrap() error { return e.Err }

// Resolve returns the name that the program uses for a file or folder of the command line: URLs of local files become
// paths. A URL that cannot be there is an error.
func (k placeKind) Resolve(name string) (string, error) {
	resolve := storage.Resolve
	switch {
	case storage.ReadOnly(name) && k != InputPlace:
		return "", &PlaceError{storage.Redact(name), errors.New("a dataset of the hub can only be an input")}
	case k == OnThisMachine:
		resolve = storage.ResolveLocal
	case k == ModelPlace && models.OnHub(name):
		return name, nil
	}
	place, err := resolve(name)
	if err == nil {
		return place, nil
	}
	switch k {
	case ModelPlace:
		err = fmt.Errorf("%w, or hf://org/name", err)
	case InputPlace:
		err = fmt.Errorf("%w, or hf://datasets/ORG/NAME/PATH", err)
	}
	return "", &PlaceError{storage.Redact(name), err}
}

// PlaceOr returns the placeError in err, whose text has no more of a name than it may, or err itself.
func PlaceOr(err error) error {
	if wrong := (*PlaceError)(nil); errors.As(err, &wrong) {
		return wrong
	}
	return err
}

// place is a flag whose value is the name of a file or folder.
type place struct {
	to   *string
	kind placeKind
}

func (p place) String() string { return *p.to }

func (p place) Type() string { return "string" }

func (p place) Set(name string) (err error) {
	*p.to, err = p.kind.Resolve(name)
	return err
}

// PlaceVar defines a flag for a file or folder.
func PlaceVar(s *pflag.FlagSet, to *string, kind placeKind, name, shorthand, usage string) {
	s.VarP(place{to, kind}, name, shorthand, usage)
}

// places is a flag for several files or folders. pflag's own type splits nothing and joins nothing; this one looks at
// each name.
type places struct {
	pflag.Value
	pflag.SliceValue
	kind placeKind
}

func (p places) Set(name string) error {
	name, err := p.kind.Resolve(name)
	if err != nil {
		return err
	}
	return p.Value.Set(name)
}

// PlacesVar defines a flag for files or folders that may be repeated.
func PlacesVar(s *pflag.FlagSet, to *[]string, kind placeKind, name, shorthand, usage string) {
	own := pflag.NewFlagSet(name, pflag.ContinueOnError)
	own.StringArrayVar(to, name, nil, "")
	value := own.Lookup(name).Value
	s.VarP(places{value, value.(pflag.SliceValue), kind}, name, shorthand, usage)
}

// Writable makes sure, before a job begins, that the file of a flag can be written when the job is over. It makes the
// folder, as writing does.
func Writable(flag, path string) error {
	if path == "" {
		return nil
	}
	wrong := func(err error) error {
		var p *os.PathError
		if errors.As(err, &p) {
			err = fmt.Errorf("%s: %w", p.Path, p.Err)
		}
		return Exit(ExitUsage, fmt.Errorf("--%s cannot be written: %w; choose another place", flag, err))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return wrong(err)
	}
	info, before := os.Lstat(path)
	if before == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSymlink) != 0 {
		return nil // a pipe waits for its reader, and a link may lead to nothing yet
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return wrong(err)
	}
	err = f.Close()
	if errors.Is(before, os.ErrNotExist) {
		if removed := os.Remove(path); !errors.Is(removed, os.ErrNotExist) { // another process may have removed it
			err = errors.Join(err, removed)
		}
	}
	if err != nil {
		return wrong(err)
	}
	return nil
}

// WritableFolder makes the folder of a flag, and makes sure that a file can be written there.
func WritableFolder(flag, path string) error {
	if path == "" {
		return nil
	}
	if strings.HasSuffix(path, "/") {
		path = filepath.Clean(path)
	}
	return Writable(flag, filepath.Join(path, ".sample-writes-here"))
}
