package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// metaText is the content of the file [MetaName].
func metaText(meta map[string]string) ([]byte, error) {
	b, err := json.MarshalIndent(meta, "", "  ") // keys in order
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

// MendMeta writes the file with the metadata of JSONL parts again if it is not what it was. It returns what was wrong
// with it; "" is nothing.
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

// MetaDamage says what is wrong with the file with the metadata of JSONL parts; "" is nothing.
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
	got := make([]byte, min(file.Size(), int64(len(want))+1))
	if n, err := file.ReadAt(got, 0); n < len(got) {
		return "", fmt.Errorf("cannot read %s: %w", MetaName, err)
	}
	if string(got) != string(want) {
		return "is not what was written", nil
	}
	return "", nil
}
