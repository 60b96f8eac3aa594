package parameter

// slot is the place of a parameter in a [Set].
type slot interface {
	pointer(s *Set) any // a pointer to the value
	get(s *Set) any
	reset(s *Set)
	copy(to, from *Set)
	kind() Type
}

type slotOf[T any] struct {
	initial T
	locate  func(*Set) *T
}

func field[T any](initial T, locate func(*Set) *T) slot { return slotOf[T]{initial, locate} }

func (f slotOf[T]) pointer(s *Set) any { return f.locate(s) }

func (f slotOf[T]) get(s *Set) any { return *f.locate(s) }

func (f slotOf[T]) reset(s *Set) { *f.locate(s) = f.initial }

func (f slotOf[T]) copy(to, from *Set) { *f.locate(to) = *f.locate(from) }

func (f slotOf[T]) kind() Type {
	switch any(f.initial).(type) {
	case int:
		return Integer
	case float64:
		return Number
	case uint64:
		return Seed
	case bool:
		return Boolean
	case []string:
		return TextList
	case []int:
		return IntegerList
	case Biases:
		return BiasesOfTokens
	case Structure:
		return Structured
	case string:
		return Word
	case ObjectJSON:
		return Object
	case ListJSON:
		return List
	}
	return 0
}
