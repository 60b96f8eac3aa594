package lockstep

// kind is what a message is for.
type kind uint8

const (
	kindHello  kind = iota // from a process that joins
	kindTaken              // process 0's answer
	kindBeat               // the sender lives
	kindStream             // a message of a stream
	kindEnd                // process 0: all is done
	kindLeave              // asks process 0 to end soon
	kindFailed             // the sender stops, with the reason
)

// message is a message over a connection.
type message struct {
	Kind   kind
	Stream stream
	Tag    uint64   // identifies the message in its stream; of kindEnd the status
	Text   string   // text of kindFailed
	Data   [][]byte // data of kindStream
	Hello  *hello   // hello of kindHello and kindTaken
}

// first returns the data of a message that has one piece.
func (m message) first() []byte {
	if len(m.Data) == 0 {
		return nil
	}
	return m.Data[0]
}

// hello is how a process introduces itself.
type hello struct {
	Protocol, Version       string
	NumProcesses, ProcessID int
	Host                    string
	Hosts                   []string // hosts of all processes, in kindTaken
}

// protocol changes with the messages.
const protocol = "quire lockstep 1"

// stream is messages in an order of their own.
type stream int

const (
	agreement stream = iota // facts, and values of process 0
	calls                   // what to do
	results                 // what calls resulted in
	exchanges               // exchanges of device 0; the streams of other devices follow
)
