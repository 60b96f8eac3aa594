// Linear layers of matrices in blocks, as quantized files have them: a run of 16 or 32 numbers of few bits with a
// scale, and perhaps a minimum. They stay quantized in memory. A task unpacks 256 inputs of a panel to bytes at a
// time, which all rows of activations then use.
//
// A panel is a run of units: of 32 inputs, or of 256 if scales are integers times a factor for 256 inputs. Such a
// unit starts with those factors, one float16 per column (and as many for the minima). A block of 32 inputs is, for
// PANEL columns c and steps s of four inputs i:
//
//	low bits    [4][PANEL][4] bytes: step s in the lower half of byte s, step s + 4 in the upper half; for 8 bits
//	            [8][PANEL][4], whole bytes
//	fifth bits  [PANEL][4] bytes: bit s belongs to step s
//	bits 5, 6   [2][PANEL][4] bytes: bits 2 (s % 4) and the next of byte s / 4
//	scales      [32 / size][PANEL] of float16, or int8, or exponents of 8 bits
//	minima      the same, if there are any
//
// A unit of a grouped format is a block of 32, 64 or 128 inputs. It starts with the scale of each column, and then
// the zero points as bytes if there are any; the rest are low bits, or whole bytes, of 32 inputs each. 8-bit floats
// are not multiplied as integers: see gemm_e4m3.h.
//
// Activations are rounded to 8 bits, each 32 by the scale of their largest. A block's products are integers and exact
// on every level; they are multiplied by their scales in float32 and added block by block. So a row's bits are the same
// on all levels that have fused multiply-adds.
#ifndef QUIRE_GEMM_BLOCKS_H
#define QUIRE_GEMM_BLOCKS_H

#include <string.h>

#include "convert.h"
#include "gemm_types.h"

enum { Q_BLOCK_IN = 32, Q_SUPER_IN = 256 };

// q_unit_in returns the inputs of a unit, q_unit_bytes its bytes in a panel, q_block_bytes the bytes of 32 inputs.
static inline int64_t q_unit_in(q_blocks b) { return b.super ? Q_SUPER_IN : b.group ? b.size : Q_BLOCK_IN; }
static inline int64_t q_halves(q_blocks b) { return b.size == 16 ? 2 : 1; } // scales for 32 inputs
static inline int64_t q_group_bytes(q_blocks b, int64_t panel) { return panel * ((b.group == 3 ? 4 : 2) + b.zero); }
static inline int64_t q_quant_bytes(q_blocks b, int64_t panel) { return 4 * b.bits * panel; }
static inline int64_t q_scale_bytes(q_blocks b, int64_t panel) {
	return b.group ? 0 : 32 / b.size * (b.super || b.exponent ? 1 : 2) * panel;
}
static inline int64_t q_block_bytes(q_blocks b, int64_t panel) {
	return q_quant_bytes(b, panel) + q_scale_bytes(b, panel) * (b.min ? 2 : 1);
}
static inline int64_t q_header_bytes(q_blocks b, int64_t panel) {
	return b.group ? q_group_bytes(b, panel) : b.super ? 2 * panel * (b.min ? 2 : 1) : 0;
}
static inline int64_t q_unit_bytes(q_blocks b, int64_t panel) {
	return q_header_bytes(b, panel) + q_unit_in(b) / Q_BLOCK_IN * q_block_bytes(b, panel);
}

// q_blocks_wide reports whether unpacked numbers need all of 8 bits.
static inline int q_blocks_wide(q_blocks b) { return b.offset == 128; }

// q_blocks_known reports whether the kernels support such blocks.
int q_blocks_known(q_blocks b);

// q_blocks_tables are the tables that quants index, as in package blocks.
enum { Q_NO_TABLE, Q_CURVE, Q_FLOATS4, Q_TABLES };
extern const uint8_t q_blocks_tables[Q_TABLES][16];

// q_power_of_two returns the scale of an exponent, 2^(e - 128).
static inline float q_power_of_two(uint8_t e) {
	const uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1u) << 23;
	float x;
	memcpy(&x, &bits, 4);
	return x;
}

extern const q_linear_code q_blocks_plain, q_blocks_avx2, q_blocks_avx512, q_blocks_vnni, q_blocks_amx;

// q_blocks_rows has rows of a matrix [out, in] in blocks before they are packed: quants [n][in], one byte each;
// scales and minima [n][in / size], float16, or integers if super is set, which then has factors [n][in / 256] for
// both, float16.
typedef struct {
	const uint8_t *quants;
	const uint16_t *scales, *minima, *scale_factors, *minimum_factors;
	const float *group_scales; // scales of a grouped format, [n][in / size], in place of scales
	const uint8_t *zeros;
} q_blocks_rows;

// q_group_scale returns the scale of a column of a unit of a grouped format.
static inline float q_group_scale(const uint8_t *unit, q_blocks b, int64_t column) {
	uint16_t half;
	float x;
	if (b.group == 3) {
		memcpy(&x, unit + 4 * column, 4);
		return x;
	}
	memcpy(&half, unit + 2 * column, 2);
	return b.group == 2 ? q_from_bf16(half) : q_from_f16(half);
}

// q_group_zeros returns the zero points of a unit.
static inline const uint8_t *q_group_zeros(const uint8_t *unit, q_blocks b, int64_t panel) {
	return unit + (b.group == 3 ? 4 : 2) * panel;
}

// q_pack_blocks packs n rows, starting with first, as far as they are in panels [from, to). packed initially is
// zeros.
void q_pack_blocks(void *packed, q_blocks b, q_blocks_rows rows, int64_t out, int64_t in, int gate_up, int64_t panel,
	int64_t first, int64_t n, int64_t from, int64_t to);

// q_blocks_unit reads the unit of a packed row that contains input i. The row is given by its column among the
// columns of the panels.
void q_blocks_unit(float *to, const void *packed, q_blocks b, int64_t in, int64_t panel, int64_t column, int64_t i);

#endif
