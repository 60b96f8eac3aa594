package stopping

// utf8State is what may follow within a character.
type utf8State uint8

const (
	boundary utf8State = iota // between characters
	needs1                    // one continuation byte is missing
	needs2
	needs3
	afterE0 // whose next byte is A0 to BF
	afterED // 80 to 9F
	afterF0 // 90 to BF
	afterF4 // 80 to 8F
	invalid
)

// next returns the state after a byte: invalid if the byte is not allowed there.
func (s utf8State) next(b byte) utf8State {
	from, to, then := byte(0x80), byte(0xBF), boundary
	switch s {
	case boundary:
		return begin(b)
	case invalid:
		return invalid
	case needs1:
	case needs2:
		then = needs1
	case needs3:
		then = needs2
	case afterE0:
		from, then = 0xA0, needs1
	case afterED:
		to, then = 0x9F, needs1
	case afterF0:
		from, then = 0x90, needs2
	case afterF4:
		to, then = 0x8F, needs2
	}
	if b < from || b > to {
		return invalid
	}
	return then
}

// begin returns the state after the first byte of a character.
func begin(b byte) utf8State {
	switch {
	case b < 0x80:
		return boundary
	case b == 0xE0:
		return afterE0
	case b == 0xED:
		return afterED
	case b == 0xF0:
		return afterF0
	case b == 0xF4:
		return afterF4
	case b >= 0xC2 && b <= 0xDF:
		return needs1
	case b >= 0xE1 && b <= 0xEF:
		return needs2
	case b >= 0xF1 && b <= 0xF3:
		return needs3
	}
	return invalid
}
