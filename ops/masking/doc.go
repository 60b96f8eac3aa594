// Package masking says which tokens a row may draw next, on the device: those that a grammar lets stand there, and
// those that lists of tokens allow or bar.
//
// A [Machine] is an automaton with a mask of the vocabulary for each state. Its states are made as they are met, since
// a grammar may have any number of them. The [Arena] holds those that were met on the device: which state follows on
// each symbol, and which mask a state has. Equal masks stand there once. A row has the number of its state. A step
// masks its logits, see [sampling.Masks], and [stopping.Walk] takes it through the token that was drawn.
//
// A state that the arena does not have yet is [Unknown]. A row there cannot draw. When the call has returned, the host
// knows the tokens that were drawn, and so the state: it places it for the next call. While calls run it places states
// that may follow, the likeliest first, see [Arena.Ahead].
package masking
