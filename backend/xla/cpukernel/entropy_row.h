// The entropy of one row; follows sampling_row.h in the source of each level, which defines Q_ENTROPY_ROW.
//
// It is log(sum e) - sum(e * x) / sum e, of x = logit - max and e = exp(x).

void Q_ENTROPY_ROW(void *args, int64_t i) {
	const q_entropy_args *a = args;
	sampled s;
	whole_row(&s, &a->of, i);
	a->entropy[i] = NAN;
	float sum = scan(&s);
	if (!(sum > 0 && s.max < INFINITY)) return;
	const v16 max = v16_set(s.max), least = v16_set(-104); // exp(least) is 0, so e * x is 0, as at -Inf
	float weighted = 0;
	for (int64_t c = 0; c < s.chunks; c++) {
		if (s.largest[c] - s.max <= -104) continue;
		int64_t n;
		const float *p = chunk(&s, c, &n);
		v16 of = v16_set(0);
		for (int64_t k = 0; k < n; k += 16) {
			v16 x = v16_max(v16_sub(v16_load(p + k), max), least);
			of = v16_fma(v16_exp(x), x, of);
		}
		weighted += v16_sum(of);
	}
	float entropy = logf(sum) - weighted / sum;
	a->entropy[i] = entropy > 0 ? entropy : 0;
}
