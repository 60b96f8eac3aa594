#include "chain.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KERNELS = 64, NAME_BEGINS = 5 };

static struct {
	const char *name;
	q_handler kernel;
} known[MOST_KERNELS];
static int known_count;

void q_chain_add(const char *name, q_handler kernel) {
	if (known_count == MOST_KERNELS) abort(); // raise MOST_KERNELS
	known[known_count].name = name;
	known[known_count++].kernel = kernel;
}

static q_handler find(const char *name, size_t size) {
	if (size <= NAME_BEGINS) return NULL;
	name += NAME_BEGINS, size -= NAME_BEGINS;
	for (int i = 0; i < known_count; i++)
		if (strlen(known[i].name) == size && memcmp(known[i].name, name, size) == 0) return known[i].kernel;
	return NULL;
}

// A running chain: all of its arrays by number, and what they are made of.
typedef struct {
	const q_array **all;
	q_array *parts;
	int64_t outer, count; // operands and results, and all arrays
	const q_attributes *kernels;
	q_handler *handlers;    // handlers by the number of an entry
	const q_array **arrays; // the arrays of the current call
} chain;

// measure counts the parts of a list.
static q_error *measure(q_frame *f, const int64_t *parts, int64_t n, int64_t *count) {
	*count = 0;
	for (int64_t i = 0; i < n; (*count)++) {
		if (n - i < 4 || parts[i + 3] < 0 || n - i - 4 < parts[i + 3]) return q_fail(f, "parts end within a part");
		i += 4 + parts[i + 3];
	}
	return NULL;
}

static q_error *set_arrays(q_frame *f, chain *c, int64_t args, const int64_t *parts) {
	for (int64_t i = 0; i < c->outer; i++)
		c->all[i] = i < args ? q_arg(f, (int)i) : q_result(f, (int)(i - args));
	for (int64_t i = c->outer; i < c->count; i++) {
		const int64_t number = parts[0], offset = parts[1];
		if (number < 0 || number >= c->outer)
			return q_fail(f, "array %lld is a part of %lld, which is no operand or result", (long long)i,
				(long long)number);
		const q_array *base = c->all[number];
		q_array *a = &c->parts[i - c->outer];
		*a = (q_array){sizeof *a, NULL, (int)parts[2], (char *)base->data + offset, parts[3], parts + 4};
		const int64_t room = q_elements(base) * (int64_t)q_size(base->dtype) - offset;
		if (offset < 0 || q_elements(a) * (int64_t)q_size(a->dtype) > room)
			return q_fail(f, "array %lld is larger than what it is a part of", (long long)i);
		c->all[i] = a;
		parts += 4 + parts[3];
	}
	return NULL;
}

static q_error *set_kernels(q_frame *f, chain *c) {
	for (int64_t i = 0; i < q_entries(c->kernels); i++) {
		const char *name;
		size_t size;
		q_entry(c->kernels, i, &name, &size);
		if (!(c->handlers[i] = find(name, size)))
			return q_fail(f, "there is no kernel %.*s", (int)size, name);
	}
	return NULL;
}

static q_error *run(q_frame *f, const chain *c, const int64_t *calls, int64_t n) {
	const char *name;
	size_t size;
	while (n > 0) {
		if (n < 3 || calls[1] < 0 || calls[2] < 0 || calls[1] > n - 3 || calls[2] > n - 3 - calls[1])
			return q_fail(f, "calls end within a call");
		const int64_t kernel = calls[0], args = calls[1], results = calls[2];
		if (kernel < 0 || kernel >= q_entries(c->kernels)) return q_fail(f, "a call has no kernel");
		for (int64_t i = 0; i < args + results; i++) {
			if (calls[3 + i] < 0 || calls[3 + i] >= c->count) return q_fail(f, "a call has an array that is none");
			c->arrays[i] = c->all[calls[3 + i]];
		}
		q_error *e = q_call(f, c->handlers[kernel], q_entry(c->kernels, kernel, &name, &size), args, c->arrays,
			results, c->arrays + args);
		if (e) return e;
		calls += 3 + args + results, n -= 3 + args + results;
	}
	return NULL;
}

q_error *quire_chain(q_frame *f) {
	if (q_skip(f)) return NULL;
	chain c;
	const int64_t *parts, *calls;
	int64_t parts_size, calls_size, count;
	q_error *e;
	if ((e = q_integers(f, "parts", &parts, &parts_size)) || (e = q_integers(f, "calls", &calls, &calls_size)) ||
		(e = q_dictionary(f, "kernels", &c.kernels)) || (e = measure(f, parts, parts_size, &count)))
		return e;
	const int64_t args = q_args(f);
	c.outer = args + q_results(f);
	c.count = c.outer + count;
	const int64_t kernels = q_entries(c.kernels);
	char *memory = malloc((size_t)count * sizeof *c.parts + (size_t)(c.count + calls_size) * sizeof *c.all +
		(size_t)kernels * sizeof *c.handlers);
	if (!memory) return q_fail(f, "no memory for a chain of kernels");
	c.parts = (q_array *)memory;
	c.all = (const q_array **)(c.parts + count);
	c.arrays = c.all + c.count; // no call has more arrays than there are numbers
	c.handlers = (q_handler *)(c.arrays + calls_size);
	if (!(e = set_arrays(f, &c, args, parts)) && !(e = set_kernels(f, &c))) e = run(f, &c, calls, calls_size);
	free(memory);
	return e;
}
