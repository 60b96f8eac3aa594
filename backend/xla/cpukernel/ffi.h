// The entry to a kernel: the arguments that XLA passes to a custom call, decoded, and work spread over XLA's own
// threads.
//
// The structs repeat the part of XLA's FFI C API, version 0.3, that kernels need; ffi.c asserts their layout, which the
// API keeps within a version. XLA calls a handler with one frame: to ask for its version (answered by q_skip), in
// stages before execution (nothing to do), and to execute. Arrays lie row-major without gaps, results likewise; an
// aliased result has the address of its operand.
//
//	q_error *quire_double(q_frame *f) {
//		if (q_skip(f)) return NULL;
//		q_error *e;
//		if ((e = q_count(f, 1, 1)) || (e = q_shape(f, q_arg(f, 0), "x", Q_F32, -1, 64))) return e;
//		struct double_args a = {q_arg(f, 0)->data, q_result(f, 0)->data};
//		q_parallel(f, q_arg(f, 0)->dims[0], double_row, &a);
//		return NULL;
//	}
#ifndef QUIRE_FFI_H
#define QUIRE_FFI_H

#include <stddef.h>
#include <stdint.h>

typedef struct q_frame q_frame;
typedef struct q_error q_error; // XLA's; it frees what a handler returns
typedef q_error *(*q_handler)(q_frame *);
typedef struct q_attributes q_attributes;

// Element types of arrays and attributes, numbered as XLA does.
enum {
	Q_PRED = 1,
	Q_S8 = 2,
	Q_S16 = 3,
	Q_S32 = 4,
	Q_S64 = 5,
	Q_U8 = 6,
	Q_U16 = 7,
	Q_U32 = 8,
	Q_U64 = 9,
	Q_F16 = 10,
	Q_F32 = 11,
	Q_F64 = 12,
	Q_BF16 = 16
};

// An array: an operand or a result. data of an array without elements may be anything.
typedef struct {
	size_t struct_size;
	void *extension;
	int dtype;
	void *data;
	int64_t rank;
	const int64_t *dims;
} q_array;

// q_skip reports whether this call is not an execution, and answers it.
int q_skip(q_frame *f);

// q_count checks the number of operands and results, before any of them is used.
q_error *q_count(q_frame *f, int64_t args, int64_t results);
int64_t q_args(const q_frame *f); // their number, if it is not fixed
int64_t q_results(const q_frame *f);
const q_array *q_arg(const q_frame *f, int i);
const q_array *q_result(const q_frame *f, int i);

// q_shape(f, a, name, dtype, dimensions...) checks an array: its element type (0 for any), its rank and its
// dimensions, except negative ones.
#define q_shape(f, a, name, dtype, ...) \
	q_check_shape(f, a, name, dtype, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
q_error *q_check_shape(q_frame *f, const q_array *a, const char *name, int dtype, int64_t rank, const int64_t *dims);

// q_wanted returns how many of all rows are wanted: a number s32[] that the caller has checked, clamped to between 0
// and all.
static inline int64_t q_wanted(const q_array *number, int64_t all) {
	const int64_t n = *(const int32_t *)number->data;
	return n < 0 ? 0 : n > all ? all : n;
}

// q_elements returns the product of the dimensions; q_size the bytes of one element, or 0 for an unknown type.
int64_t q_elements(const q_array *a);
size_t q_size(int dtype);

// Attributes by name: a missing one, or one of a different kind, is an error. Integers are i32 or i64, floats f32 or
// f64. A string is not terminated and lives as long as the call.
q_error *q_int(q_frame *f, const char *name, int64_t *out);
q_error *q_float(q_frame *f, const char *name, double *out);
q_error *q_bool(q_frame *f, const char *name, int *out);
q_error *q_string(q_frame *f, const char *name, const char **out, size_t *size);

// q_integers reads an attribute that is an array of i64: its elements, and their number in *n.
q_error *q_integers(q_frame *f, const char *name, const int64_t **out, int64_t *n);

// q_dictionary reads an attribute that is a dictionary of dictionaries. q_entries returns their number, and q_entry
// the i-th one in the order of their names.
q_error *q_dictionary(q_frame *f, const char *name, const q_attributes **out);
int64_t q_entries(const q_attributes *a);
const q_attributes *q_entry(const q_attributes *a, int64_t i, const char **name, size_t *size);

// q_call calls another kernel as a part of this call, with these attributes, operands and results.
q_error *q_call(q_frame *f, q_handler kernel, const q_attributes *attributes, int64_t args, const q_array **arg,
	int64_t results, const q_array **result);

// q_device returns the number of the device that the call runs on.
q_error *q_device(q_frame *f, int *device);

// q_fail makes an error with a message in printf's format. A handler returns it.
q_error *q_fail(q_frame *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

// q_parallel calls task(args, i) for each i in [0, tasks), in any order, on the calling thread and on idle ones of
// XLA's pool, and returns when all are done. A task must not wait for another. On x86-64, subnormal numbers are zero
// in it. f may be NULL: then the calling thread does all, in order.
//
// Each thread has a share of consecutive tasks and takes them in order: the next task of a thread is usually i + 1. A
// thread that has finished its share takes the last tasks of others.
void q_parallel(q_frame *f, int64_t tasks, void (*task)(void *args, int64_t i), void *args);

// q_parallel_then calls first for each of its tasks and, once these are done, task for each of the others. It is
// faster than two calls of q_parallel.
void q_parallel_then(q_frame *f, int64_t first_tasks, void (*first)(void *args, int64_t i), int64_t tasks,
	void (*task)(void *args, int64_t i), void *args);

// q_share returns the start of a thread's share, of so many threads. The share ends at the start of the next one.
int64_t q_share(int64_t tasks, int64_t threads, int64_t thread);

// q_threads returns how many threads q_parallel may use, including the calling one. No result may depend on it.
int64_t q_threads(q_frame *f);

// q_all_threads returns the maximum of q_threads. q_use_threads lowers q_threads from then on, to at least 1.
int64_t q_all_threads(q_frame *f);
void q_use_threads(int64_t threads);

// q_schedule makes a thread of XLA's pool call work(data) eventually, and reports whether it will.
int q_schedule(q_frame *f, void (*work)(void *data), void *data);

// q_set_threads bounds the threads of each q_parallel from then on. XLA's pool may have more threads than the process
// has processors, because its size also depends on the number of devices. Threads that take turns on a processor
// would delay the others.
void q_set_threads(int64_t most);

#endif
