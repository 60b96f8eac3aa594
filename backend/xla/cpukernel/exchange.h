// Numbers that the processes of a group exchange.
#ifndef QUIRE_EXCHANGE_H
#define QUIRE_EXCHANGE_H

#include "ffi.h"

// quire_exchange gives the same device of each process the arrays of all: operand x, result [processes, dimensions of
// x...] of its type. Attributes: channel, the number of the exchange in the program; devices, how many devices of a
// process take part.
q_error *quire_exchange(q_frame *f);

#endif
