package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// metaText returns the content of the file [MetaName].
func metaText(meta map[string]string) ([]byte, error) {
	b, err := json.MarshalIndent(meta, "", "  ") // keys are sorted
	return append(b, '\n'), err
}

// WriteMeta publishes the metadata of JSONL parts.
func WriteMeta(d Destination, meta map[string]string) error {
	b, err := metaText(meta)
	if err != nil {
		return err
	}
	p, err := d.Create(MetaName)
	if err != nil {
		return err
	}
	if _, err := p.Write(b); err != nil {
		p.Discard()
		return err
	}
	return p.Publish()
}

const metaMissing = "is missing"

// MendMeta rewrites the file with the metadata of JSONL parts if it has changed. It returns what was wrong with it;
// "" if nothing was.
func MendMeta(folder Output, meta map[string]string) (what string, err error) {
	if what, err = MetaDamage(folder, meta); what == "" || err != nil {
		return what, err
	}
	if what != metaMissing {
		file, err := folder.Open(MetaName)
		if err != nil {
			return what, err
		}
		defer file.Close()
		folder.Condemn(MetaName, file.Version())
	}
	return what, WriteMeta(folder, meta)
}

// MetaDamage returns what is wrong with the file with the metadata of JSONL parts; "" if nothing is.
func MetaDamage(place Published, meta map[string]string) (what string, err error) {
	want, err := metaText(meta)
	if err != nil {
		return "", err
	}
	file, err := place.Open(MetaName)
	if errors.Is(err, fs.ErrNotExist) {
		return metaMissing, nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	actual := make([]byte, min(file.Size(), int64(len(want))+1))
	if n, err := file.ReadAt(actual, 0); n < len(actual) {
		return "", fmt.Errorf("cannot read %s: %w", MetaName, err)
	}
	if string(actual) != string(want) {
		return "is not what was written", nil
	}
	return "", nil
}
