package spec

import (
	"strings"

	"github.com/quire/quire/data/storage"
)

// Adapters are the LoRA adapters of a job's model.
type Adapters struct {
	// Named are adapters that rows may name, as NAME=PLACE, and Folders are folders with one in each folder below them,
	// of that name.
	Named, Folders []string `json:",omitempty"`
	// Slots is how many of them the device has room for; 0 is found.
	Slots int `json:",omitempty"`
	// Merged is the place of an adapter that is folded into the weights.
	Merged string `json:",omitempty"`
}

// Validate checks the form of the adapters' names. The error is a [*FieldError].
func (a *Adapters) Validate() error {
	seen := map[string]bool{}
	for _, one := range a.Named {
		name, place, ok := strings.Cut(one, "=")
		switch {
		case !ok || name == "" || place == "":
			return Invalid("adapter", "is %q, but must be NAME=PLACE", storage.Redact(one))
		case seen[name]:
			return Invalid("adapter", "names %s twice", name)
		}
		seen[name] = true
	}
	switch {
	case a.Slots < 0:
		return Invalid("adapter-slots", "is %d, but must be 0 (found automatically) or more", a.Slots)
	case a.Slots > 0 && len(a.Named)+len(a.Folders) == 0:
		return Invalid("adapter-slots", "is %d, and there are no adapters: name them with `adapter`", a.Slots)
	}
	return nil
}

// Places are where the adapters are.
func (a *Adapters) Places() (list []string) {
	for _, one := range a.Named {
		_, place, _ := strings.Cut(one, "=")
		list = append(list, place)
	}
	list = append(list, a.Folders...)
	if a.Merged != "" {
		list = append(list, a.Merged)
	}
	return list
}
