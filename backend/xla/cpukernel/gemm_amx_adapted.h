// Adapters of rows by tiles of AMX, for matrices of bf16: what an adapter adds to a row continues the row's sum.
//
// A row's inner numbers are two of bf16 each, the number rounded and what that left, which makes 16 bits. A step is 16
// ranks: 32 numbers of a row, the 16 rounded ones and then the 16 that were left, and the adapter's matrix twice, in
// pairs of ranks. Steps do not cross a cut of q_adapted. A row's bits do not depend on the others: rows of a tile that
// do not all have the same adapter are continued once for each, from the same sums.
enum { MOST_STEPS = 8 };

// factors are what continues the sums of a panel: tiles of inner numbers, stride bytes between two tiles of rows, and
// of a matrix.
typedef struct {
	const char *a, *b;
	int64_t steps, stride;
} factors;

// pair_adapters has an adapter for one or two panels, the first of which is panel. l is the layer, or NULL.
typedef struct {
	const q_linear *l;
	const char *matrix;
	int64_t panel, begins[2]; // begins are the offsets of the panels' inner numbers in a tile's
	factors of[2];
	char turned[2][MOST_STEPS][1024] __attribute__((aligned(64)));
} pair_adapters;

static int64_t steps_a_share(const q_adapted *a) { return (a->share + 15) / 16; }
static int64_t inner_steps(const q_adapted *a) { return a->ranks / a->share * steps_a_share(a); }

// adapted_by_tiles reports whether tiles compute what adapters add: the inner numbers fit into the scratch, after the
// rows.
static int adapted_by_tiles(const q_linear *l) {
	if (!l->adapted || l->dtype != Q_BF16) return 0;
	const int64_t steps = inner_steps(l->adapted), scratch = (int64_t)q_linear_scratch(16, l->in);
	return steps <= MOST_STEPS && 16 * 2 * ((l->in + 31) / 32 * 32) + steps * 1024 <= scratch;
}

// inner_tile is where the inner numbers of tile t of rows are packed: [steps][16 rows][32].
static char *inner_tile(const q_linear_job *j, const q_adapted *a, int64_t t) {
	return (char *)j->rows + j->tiles * 16 * j->padded_in * 2 + t * inner_steps(a) * 1024;
}

static void pack_inner(const q_linear_job *j, int64_t t) {
	const q_adapted *a = j->l->adapted;
	char *to = inner_tile(j, a, t);
	for (int64_t first = 0; first < a->ranks; first += a->share) {
		for (int64_t k = 0; k < a->share; k += 16, to += 1024) {
			for (int64_t r = 0; r < 16 && t * 16 + r < j->l->rows; r++) {
				const v16 x = load16(
					a->inner, (t * 16 + r) * a->ranks + first + k, Q_F32, least(16, a->share - k));
				uint16_t *rounded = (uint16_t *)(to + r * 64);
				v16_store_bf16(rounded, x);
				v16_store_bf16(rounded + 16, v16_sub(x, v16_load_bf16(rounded)));
			}
		}
	}
}

// turn_panel writes the columns of an adapter's matrix that belong to a panel as tiles.
static void turn_panel(pair_adapters *p, int64_t panel, int i) {
	const q_adapted *a = p->l->adapted;
	const int64_t half = p->l->out / 2, own = p->l->gate_up ? panel / 2 * 16 : panel * 16;
	const int64_t n = least(16, (p->l->gate_up ? half : p->l->out) - own);
	const int64_t column = a->first + own + (p->l->gate_up && panel % 2 ? half : 0), last = column + n - 1;
	const int64_t begin = (column >= a->cuts[0]) + (column >= a->cuts[1]);
	const int64_t end = (last >= a->cuts[0]) + (last >= a->cuts[1]) + 1;
	char *to = p->turned[i][0];
	for (int64_t share = begin; share < end; share++) {
		for (int64_t k = 0; k < steps_a_share(a) * 16; k += 2) {
			const char *from = p->matrix + ((share * a->share + k) * a->out + column) * 2;
			uint16_t ranks[2][16] = {0};
			uint32_t *pairs = (uint32_t *)(to + k / 16 * 1024 + k % 16 * 32);
			for (int64_t r = 0; r < 2 && k < a->share; r++, from += a->out * 2) {
				if (n == 16) memcpy(ranks[r], from, 32);
				else memcpy(ranks[r], from, n * 2);
			}
			for (int c = 0; c < 16; c++) pairs[8 * 16 + c] = pairs[c] = ranks[0][c] | (uint32_t)ranks[1][c] << 16;
		}
		to += steps_a_share(a) * 1024;
	}
	p->begins[i] = begin * steps_a_share(a) * 1024;
	p->of[i].b = p->turned[i][0];
	p->of[i].steps = (end - begin) * steps_a_share(a);
	p->of[i].stride = inner_steps(a) * 1024;
}

// turn_matrix finds the factors of an adapter for n panels and the tiles of rows from t on.
static void turn_matrix(
	pair_adapters *p, const q_linear_job *j, const char *matrix, int64_t t, int64_t panel, int64_t n) {
	const int known = p->matrix == matrix && p->panel == panel; // from the tiles of rows before
	for (int i = 0; i < n; i++) {
		if (!known) {
			p->matrix = matrix;
			p->panel = panel;
			turn_panel(p, panel + i, i);
		}
		p->of[i].a = inner_tile(j, p->l->adapted, t) + p->begins[i];
	}
}

// turn_pair is turn_matrix for the adapter of some tiles of rows, and reports whether they all have the same.
static int turn_pair(pair_adapters *p, const q_linear_job *j, int64_t t, int64_t tiles, int64_t panel, int64_t n) {
	const char *const *matrices = p->l->adapted->matrices + t * 16;
	const int64_t rows = least(tiles * 16, p->l->rows - t * 16);
	for (int64_t r = 0; r < rows; r++)
		if (!matrices[r] || matrices[r] != matrices[0]) return 0;
	turn_matrix(p, j, matrices[0], t, panel, n);
	return 1;
}

// add_adapters continues the sums of n panels and some tiles of rows with the adapter of each row, if it has one.
static void add_adapters(
	pair_adapters *p, const q_linear_job *j, float *sums, int64_t t, int64_t tiles, int64_t panel, int64_t n) {
	float continued[TILE] __attribute__((aligned(64)));
	for (int64_t k = 0; k < tiles; k++, sums += TILE) {
		const char *const *matrices = p->l->adapted->matrices + (t + k) * 16;
		const int64_t rows = least(16, p->l->rows - (t + k) * 16);
		for (int64_t r = 0; r < rows; r++) {
			int before = !matrices[r];
			for (int64_t i = 0; i < r; i++) before |= matrices[i] == matrices[r];
			if (before) continue;
			turn_matrix(p, j, matrices[r], t + k, panel, n);
			for (int64_t i = 0; i < n; i++) {
				amx_reads(p);
				_tile_loadd(0, sums + i * SUMS, 64);
				for (int64_t step = 0; step < p->of[i].steps; step++) {
					_tile_loadd(6, p->of[i].b + step * 1024, 64);
					_tile_loadd(4, p->of[i].a + step * 1024, 64);
					_tile_dpbf16ps(0, 4, 6);
				}
				_tile_stored(0, continued, 64);
				for (int64_t of = r; of < rows; of++)
					if (matrices[of] == matrices[r])
						memcpy(sums + i * SUMS + of * PANEL, continued + of * PANEL, PANEL * sizeof *sums);
			}
		}
	}
}
