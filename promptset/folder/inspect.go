package folder

import ()

// Damage is what is wrong with a published part.
type Damage struct {
	Part Part
	What string
}

// Inspection is what a look at published parts found.
type Inspection struct {
	Damaged []Damage      // by number
	Gone    []int         // removed after they were listed
	Noted   []PartSummary // of other machines, which the notes lacked
}

// Inspect looks at the size and the last bytes of published parts, and compares them with the notes. It takes over what
// other machines noted of parts that the notes lack. Damaged parts are condemned: see [Output]. Parts without
// seals, which older versions wrote, are taken as they are.
func Inspect(folder Output, parts []Part, notes *Notes) (found Inspection, err error) {
	if found.Noted, err = notes.complete(folder, parts); err != nil {
		return found, err
	}
	looks, err := notes.look(folder, parts)
	if err != nil {
		return found, err
	}
	for _, l := range looks {
		if l.gone {
			found.Gone = append(found.Gone, l.part.Number)
		}
		if l.what == "" {
			continue
		}
		// Another machine may have written it, after --new there: its note counts, not what this machine has of an
		// older part.
		there, err := folder.Note(l.part.Number)
		if err != nil {
			return found, err
		}
		if there != nil && (!there.Sealed() || there.Seal == l.seal) {
			notes.Add(*there)
			found.Noted = append(found.Noted, *there)
			continue
		}
		folder.Condemn(l.part.Name, l.version)
		found.Damaged = append(found.Damaged, Damage{l.part, l.what})
	}
	return found, nil
}
