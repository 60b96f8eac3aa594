package folder

import ()

// Damage describes what is wrong with a published part.
type Damage struct {
	Part Part
	What string
}

// Inspection is the result of a look at published parts.
type Inspection struct {
	Damaged []Damage      // by number
	Gone    []int         // removed after the parts were listed
	Noted   []PartSummary // notes of other machines that were missing here
}

// Inspect reads the size and the last bytes of published parts and compares them with the notes. It adopts the notes
// of other machines on parts that have none here. Damaged parts are condemned: see [Output]. Parts without seals,
// which older versions wrote, are accepted.
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
		// Another machine may have written the part after --new: then its note counts, rather than this machine's
		// note on an older part.
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
