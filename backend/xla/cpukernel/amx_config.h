// The shapes of AMX's tiles, as the processor reads them.
#ifndef QUIRE_AMX_CONFIG_H
#define QUIRE_AMX_CONFIG_H

#include <stdint.h>

typedef struct {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16]; // bytes of each row of a tile
	uint8_t rows[16];
} amx_config;

// amx_reads must precede tile instructions that read what p points at, if it was written in the same function: gcc's
// intrinsics do not declare that they read memory.
static inline void amx_reads(const void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }

#endif
