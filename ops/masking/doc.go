// Package masking computes, on the device, which tokens a row may sample next: tokens that a grammar allows, and that
// lists of tokens allow or do not forbid.
//
// A [Machine] is an automaton with a mask of the vocabulary for each state. Its states are made when they are reached,
// because a grammar may have any number of them. The [Arena] holds the states on the device that were reached: the
// state that follows on each symbol, and the mask of each state. Equal masks are stored once. A row has the number of
// its state. A step masks its logits, see [sampling.Masks], and [stopping.Walk] advances it by the sampled token.
//
// A state that the arena does not have yet is [Unknown]. A row in such a state cannot sample. When the call has
// returned, the host knows the sampled tokens, and so the state, and places the state for the next call. While calls
// run it places states that may follow, the likeliest first, see [Arena.Ahead].
package masking
