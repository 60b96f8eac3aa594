#include "gemm_blocks.h"

#include <string.h>

#include "convert.h"

const uint8_t q_blocks_tables[Q_TABLES][16] = {
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241},
	{12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0},
};

int q_blocks_known(q_blocks b) {
	if (b.group) {
		if (b.super || b.min || b.exponent || b.table) return 0;
		return (b.size == 32 || b.size == 64 || b.size == 128) && (b.bits == 8 || (b.bits == 4 && !b.e4m3)) &&
		       (b.zero || b.e4m3 || b.offset == 1 << (b.bits - 1));
	}
	if (b.table >= Q_TABLES || (b.exponent && (b.super || b.min))) return 0;
	if (b.table && (b.bits != 4 || b.size != 32 || b.min)) return 0;
	if (b.bits == 8) return b.size == 32 && b.offset == 128 && !b.min;
	return b.bits >= 4 && b.bits <= 6 && (b.size == 32 || (b.size == 16 && b.super && !b.min));
}

// put_block writes 32 numbers of a column to a block, which initially is zeros.
static void put_block(uint8_t *to, q_blocks b, const uint8_t *q, int64_t panel, int64_t column) {
	uint8_t *high = to + 16 * panel;
	for (int i = 0; i < 32; i++) {
		const int64_t step = i / 4, at = column * 4 + i % 4;
		if (b.bits == 8) {
			to[step * 4 * panel + at] = q[i];
			continue;
		}
		to[step % 4 * 4 * panel + at] |= (q[i] & 15) << (step < 4 ? 0 : 4);
		if (b.bits == 5) high[at] |= (q[i] >> 4 & 1) << step;
		if (b.bits == 6) high[step / 4 * 4 * panel + at] |= (q[i] >> 4 & 3) << 2 * (step % 4);
	}
}

static uint8_t get_quant(const uint8_t *from, q_blocks b, int64_t panel, int64_t column, int i) {
	const int64_t step = i / 4, at = column * 4 + i % 4;
	if (b.bits == 8) return from[step * 4 * panel + at];
	const uint8_t *high = from + 16 * panel;
	int q = from[step % 4 * 4 * panel + at] >> (step < 4 ? 0 : 4) & 15;
	if (b.bits == 5) q |= (high[at] >> step & 1) << 4;
	if (b.bits == 6) q |= (high[step / 4 * 4 * panel + at] >> 2 * (step % 4) & 3) << 4;
	return b.table ? q_blocks_tables[b.table][q] : q;
}

static void put16(uint8_t *to, int64_t i, uint16_t x) { memcpy(to + 2 * i, &x, 2); }
static float get16(const uint8_t *from, int64_t i) {
	uint16_t x;
	memcpy(&x, from + 2 * i, 2);
	return q_from_f16(x);
}

// pack_row writes a row to a column of a panel.
static void pack_row(
	uint8_t *to, q_blocks b, q_blocks_rows rows, int64_t row, int64_t in, int64_t panel, int64_t column) {
	const int64_t each = 32 / b.size; // scales of a block
	const uint8_t *q = rows.quants + row * in;
	for (int64_t i = 0; i < in; i += q_unit_in(b)) {
		if (b.super) {
			int64_t at = (row * in + i) / Q_SUPER_IN;
			put16(to, column, rows.scale_factors[at]);
			if (b.min) put16(to + 2 * panel, column, rows.minimum_factors[at]);
			to += q_header_bytes(b, panel);
		}
		for (int64_t k = 0; k < q_unit_in(b); k += Q_BLOCK_IN, to += q_block_bytes(b, panel)) {
			put_block(to, b, q + i + k, panel, column);
			uint8_t *scales = to + q_quant_bytes(b, panel), *minima = scales + q_scale_bytes(b, panel);
			for (int64_t h = 0; h < each; h++) {
				int64_t at = (row * in + i + k) / b.size + h;
				if (b.super || b.exponent) scales[h * panel + column] = (uint8_t)rows.scales[at];
				else put16(scales, h * panel + column, rows.scales[at]);
				if (!b.min) continue;
				if (b.super) minima[h * panel + column] = (uint8_t)rows.minima[at];
				else put16(minima, h * panel + column, rows.minima[at]);
			}
		}
	}
}

// pack_group_row is pack_row for a grouped format.
static void pack_group_row(
	uint8_t *to, q_blocks b, q_blocks_rows rows, int64_t row, int64_t in, int64_t panel, int64_t column) {
	for (int64_t i = 0; i < in; i += b.size) {
		const int64_t at = (row * in + i) / b.size;
		const float scale = rows.group_scales[at];
		if (b.group == 3) memcpy(to + 4 * column, &scale, 4);
		else put16(to, column, b.group == 2 ? q_to_bf16(scale) : q_to_f16(scale));
		if (b.zero) to[q_group_bytes(b, panel) - panel + column] = rows.zeros[at];
		to += q_group_bytes(b, panel);
		for (int64_t k = 0; k < b.size; k += Q_BLOCK_IN, to += q_quant_bytes(b, panel))
			put_block(to, b, rows.quants + row * in + i + k, panel, column);
	}
}

// group_unit is q_blocks_unit for a grouped format, whose unit starts at from.
static void group_unit(float *to, const uint8_t *from, q_blocks b, int64_t panel, int64_t column) {
	const float scale = q_group_scale(from, b, column);
	const int zero = b.zero ? q_group_zeros(from, b, panel)[column] : b.offset;
	from += q_group_bytes(b, panel);
	for (int64_t k = 0; k < b.size; k += Q_BLOCK_IN, from += q_quant_bytes(b, panel)) {
		for (int j = 0; j < Q_BLOCK_IN; j++) {
			const uint8_t q = get_quant(from, b, panel, column, j);
			*to++ = scale * (b.e4m3 ? q_from_e4m3(q) : (float)(q - zero));
		}
	}
}

void q_pack_blocks(void *packed, q_blocks b, q_blocks_rows rows, int64_t out, int64_t in, int gate_up, int64_t panel,
	int64_t first, int64_t n, int64_t from, int64_t to) {
	for (int64_t row = 0; row < n; row++) {
		int64_t column = q_packed_column(first + row, out, gate_up), p = column / panel;
		if (p < from || p >= to) continue;
		uint8_t *to = (uint8_t *)packed + p * (in / q_unit_in(b)) * q_unit_bytes(b, panel);
		(b.group ? pack_group_row : pack_row)(to, b, rows, row, in, panel, column % panel);
	}
}

void q_blocks_unit(float *to, const void *packed, q_blocks b, int64_t in, int64_t panel, int64_t column, int64_t i) {
	const int64_t units = in / q_unit_in(b);
	const uint8_t *from =
		(const uint8_t *)packed + (column / panel * units + i / q_unit_in(b)) * q_unit_bytes(b, panel);
	column %= panel;
	if (b.group) {
		group_unit(to, from, b, panel, column);
		return;
	}
	float scale_factor = 1, minimum_factor = 1;
	if (b.super) {
		scale_factor = get16(from, column);
		if (b.min) minimum_factor = get16(from + 2 * panel, column);
		from += q_header_bytes(b, panel);
	}
	for (int64_t k = 0; k < q_unit_in(b); k += Q_BLOCK_IN, from += q_block_bytes(b, panel), to += Q_BLOCK_IN) {
		const uint8_t *scales = from + q_quant_bytes(b, panel), *minima = scales + q_scale_bytes(b, panel);
		for (int j = 0; j < Q_BLOCK_IN; j++) {
			int64_t at = j / b.size * panel + column;
			float scale = b.super      ? scale_factor * (int8_t)scales[at]
			              : b.exponent ? q_power_of_two(scales[at])
			                           : get16(scales, at);
			float x = scale * (float)(get_quant(from, b, panel, column, j) - b.offset);
			if (b.min) x = b.super ? x - minimum_factor * (int8_t)minima[at] : x + get16(minima, at);
			to[j] = x;
		}
	}
}
