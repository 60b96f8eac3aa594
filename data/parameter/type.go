package parameter

// Type is the type of the values of one of Quire's own parameters.
type Type int

// The types of Quire's own parameters.
const (
	Integer Type = iota + 1
	Number
	Seed // an unsigned 64-bit integer
	Boolean
	TextList // a list of texts; one text is a list of one
	IntegerList
	Structured     // an object that ParseStructure parses
	Word           // one of a few texts
	Object         // a JSON object, or text that contains one
	List           // a JSON list, or text that contains one
	BiasesOfTokens // an object of numbers by token ids
)

// String returns the type as error messages name it.
func (t Type) String() string {
	switch t {
	case Number:
		return "a number"
	case Boolean:
		return "boolean"
	case TextList:
		return "text or list of text"
	case BiasesOfTokens:
		return "a JSON object of numbers by token ids"
	case IntegerList:
		return "a list of integers"
	case Structured:
		return "a JSON object"
	case Word:
		return "text"
	case Object:
		return "a JSON object"
	case List:
		return "a JSON list"
	}
	return "an integer"
}
