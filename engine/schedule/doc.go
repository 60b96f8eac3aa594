// Package schedule decides, between two calls of the device, the work of the next call: which sequences wait for a
// slot, which prompts and prefixes run ahead, which rows are freed, which sequences are swapped out and in, which
// prefixes stay in the host cache. It turns the tokens of each call into completions.
//
// It knows the device as a [Device] and nothing of graphs. The device decides which sequence gets which slot when, from
// what the scheduler offers.
//
// Two goroutines work for a run. The run's goroutine, which called Run, owns the scheduler and all its parts, so none
// of them has a lock. The drain's goroutine owns the text of sequences. They share three things: the channel of
// results, sequence.cancelled and drain.fault.
package schedule
