package arch

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/quire/quire/internal/pyjson"
)

// JSON reads typed keys of a JSON object, each with a default for an absent key. The first key of the wrong type is
// kept in err. null counts as absent, except for Present.
type JSON struct {
	fields map[string]json.RawMessage
	err    error
}

func newJSON(data []byte) (*JSON, error) {
	j := &JSON{}
	if err := json.Unmarshal(pyjson.Standard(data), &j.fields); err != nil {
		return nil, fmt.Errorf("it is not a valid JSON object: %w", err)
	}
	return j, nil
}

func (j *JSON) Present(key string) bool { _, ok := j.fields[key]; return ok }

func (j *JSON) Has(key string) bool { return j.Present(key) && string(j.fields[key]) != "null" }

// decode leaves dst unchanged if the key is absent.
func (j *JSON) Decode(key string, dst any) {
	if !j.Has(key) {
		return
	}
	if err := json.Unmarshal(j.fields[key], dst); err != nil {
		j.fail(fmt.Errorf("%s is not of the expected type: %w", key, err))
	}
}

func (j *JSON) fail(err error) {
	if j.err == nil {
		j.err = err
	}
}

func (j *JSON) Float(key string, absent float64) float64 { j.Decode(key, &absent); return absent }

// FloatOrNull is Float, but 0 if the key is null.
func (j *JSON) FloatOrNull(key string, absent float64) float64 {
	if j.Present(key) && !j.Has(key) {
		return 0
	}
	return j.Float(key, absent)
}

func (j *JSON) Bool(key string, absent bool) bool { j.Decode(key, &absent); return absent }
func (j *JSON) String(key, absent string) string  { j.Decode(key, &absent); return absent }

// int accepts 4096.0 as well, which some exporters write.
func (j *JSON) Int(key string, absent int) int {
	x := j.Float(key, float64(absent))
	if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		j.fail(fmt.Errorf("%s is %g, not an integer", key, x))
		return absent
	}
	return int(x)
}

func (j *JSON) required(key string) int {
	if !j.Has(key) {
		j.fail(fmt.Errorf("%s is missing", key))
	}
	return j.Int(key, 0)
}

func (j *JSON) requiredFloat(key string) float64 {
	if !j.Has(key) {
		j.fail(fmt.Errorf("%s is missing", key))
	}
	return j.Float(key, 0)
}

// tokenIDs reads one id or a list of them.
func (j *JSON) tokenIDs(key string) []int32 {
	if !strings.HasPrefix(string(j.fields[key]), "[") {
		if !j.Has(key) {
			return nil
		}
		id := int32(-1)
		j.Decode(key, &id)
		return []int32{id}
	}
	var ids []int32
	j.Decode(key, &ids)
	return ids
}
