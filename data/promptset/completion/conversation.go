package completion

// Conversation is what a completion that may call tools has in addition: its text is the text of its last turn, and its
// tokens are those of all turns and of what came between them.
type Conversation struct {
	Turns    int     // turns of the model; 0 in other jobs
	Messages string  // the whole conversation, as a JSON list in the form of OpenAI's API
	Mask     []int32 // for each of TokenIDs 1 if the model generated it, 0 if it came from tools
}

// Inserted counts the tokens that the model did not generate.
func (c *Conversation) Inserted() (n int) {
	for _, generated := range c.Mask {
		if generated == 0 {
			n++
		}
	}
	return n
}
