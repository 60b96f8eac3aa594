package storage

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// schemes are the URL schemes of objects.
var schemes = []string{"s3", "gs", "azblob", "mem", hubScheme}

// On the hub, files of datasets are objects; other names with its scheme are models.
const (
	hubScheme = "hf"
	hubBucket = "datasets"
)

// IsRemote reports whether name is the URL of an object or of a folder of objects.
func IsRemote(name string) bool {
	scheme, rest, ok := strings.Cut(name, "://")
	if scheme == hubScheme && rest != hubBucket && !strings.HasPrefix(rest, hubBucket+"/") {
		return false
	}
	return ok && slices.Contains(schemes, scheme)
}

// ReadOnly reports whether name is a URL that can only be read: a dataset of the hub.
func ReadOnly(name string) bool { return strings.HasPrefix(name, hubScheme+"://") && IsRemote(name) }

// Schemes describes the names that Resolve accepts and that can be written to, for help texts and errors.
const Schemes = "a path, file:///PATH, s3://BUCKET/KEY, gs://BUCKET/KEY or azblob://CONTAINER/KEY"

// schemeOf matches the scheme at the start of a name. A path that looks like a URL must be written ./NAME.
var schemeOf = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)

// Resolve returns a name in the form that this package and the program use: the URL of a local file becomes its path,
// and a URL with an unknown scheme is an error that lists the known ones. Paths and URLs of objects are returned
// unchanged.
func Resolve(name string) (string, error) {
	match := schemeOf.FindStringSubmatch(name)
	if match == nil {
		return name, nil
	}
	switch scheme := strings.ToLower(match[1]); {
	case scheme == "file":
		path := strings.TrimPrefix(name[len(match[0]):], "localhost")
		if !strings.HasPrefix(path, "/") {
			return "", errors.New("a file URL is file:///absolute/path")
		}
		return path, nil
	case match[1] == hubScheme && !IsRemote(name):
		return "", errors.New("of the hub only datasets are files here; write hf://datasets/ORG/NAME[@REVISION]/PATH")
	case slices.Contains(schemes, match[1]):
		return name, nil
	default:
		return "", fmt.Errorf("the scheme %s:// is unknown; give %s", match[1], Schemes)
	}
}

// ResolveLocal is Resolve for files that must be on this machine.
func ResolveLocal(name string) (string, error) {
	if path, err := Resolve(name); err == nil && !IsRemote(path) {
		return path, nil
	} else if match := schemeOf.FindStringSubmatch(name); err == nil || !strings.EqualFold(match[1], "file") {
		return "", fmt.Errorf("%s:// is not supported here; give a local path or file:///PATH", match[1])
	} else {
		return "", err
	}
}
