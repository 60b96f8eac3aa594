// Package schedule decides, between two calls of the device, what the next call may work on: which sequences wait for a
// slot, which prompts and prefixes run ahead, which rows are released, which sequences are swapped out and in, which
// prefixes stay in the host cache. It reads what a call drew and turns it into completions.
//
// It knows the device as a [Device] and nothing of graphs. The device decides which sequence gets which slot when, from
// what the scheduler offers.
package schedule
