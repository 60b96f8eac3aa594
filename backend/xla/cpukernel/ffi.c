#include "ffi.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXTENSION_METADATA = 1, STAGE_EXECUTE = 3, INVALID_ARGUMENT = 3, VERSION_MAJOR = 0, VERSION_MINOR = 3 };
enum { ATTRIBUTE_ARRAY = 1, ATTRIBUTE_DICTIONARY = 2, ATTRIBUTE_SCALAR = 3, ATTRIBUTE_STRING = 4 };

typedef struct extension {
	size_t struct_size;
	int type;
	struct extension *next;
} extension;

typedef struct {
	size_t struct_size;
	void *extension;
	int major, minor;
} version;

typedef struct {
	size_t struct_size;
	version api_version;
	uint32_t traits;
} metadata;

typedef struct {
	extension base;
	metadata *metadata;
} metadata_extension;

typedef struct {
	const char *data;
	size_t size;
} span;

typedef struct {
	int dtype;
	void *value;
} scalar;

typedef struct {
	int dtype;
	size_t size;
	void *values;
} numbers;

typedef struct {
	size_t struct_size;
	void *extension;
	int64_t size;
	int *types;
	const q_array **arrays;
} arrays;

struct q_attributes {
	size_t struct_size;
	void *extension;
	int64_t size;
	int *types;
	span **names;
	void **values;
};

typedef struct {
	size_t struct_size;
	void *extension;
	const char *message;
	int code;
} error_create_args;

typedef struct {
	size_t struct_size;
	void *extension;
	q_error *error;
} error_destroy_args;

typedef struct {
	size_t struct_size;
	void *extension;
	void *context;
	void (*task)(void *);
	void *data;
} schedule_args;

typedef struct {
	size_t struct_size;
	void *extension;
	void *context;
	int64_t *threads;
} threads_args;

typedef struct {
	size_t struct_size;
	void *extension;
	void *context;
	int32_t device;
} device_args;

typedef struct {
	size_t struct_size;
	void *extension;
	version api_version;
	void *internal;
	q_error *(*error_create)(error_create_args *);
	void *error_get_message;
	void (*error_destroy)(error_destroy_args *);
	void *between[8]; // Handler_Register, Stream_Get, Type_Register, ExecutionContext_Get, State_Set, State_Get,
	                  // DeviceMemory_*
	q_error *(*schedule)(schedule_args *);
	q_error *(*threads)(threads_args *);
	void *futures[4];                  // Future_Create, Future_SetAvailable, Future_SetError, RunId_Get
	q_error *(*device)(device_args *); // not in every plugin
} api;

struct q_frame {
	size_t struct_size;
	extension *extensions;
	const api *api;
	void *context;
	int stage;
	arrays args, results;
	q_attributes attributes;
};

// The layout of XLA FFI 0.3 on 64 bits.
_Static_assert(sizeof(void *) == 8, "64 bits");
_Static_assert(sizeof(q_array) == 48 && offsetof(q_array, data) == 24 && offsetof(q_array, dims) == 40, "Buffer");
_Static_assert(sizeof(arrays) == 40 && sizeof(q_attributes) == 48, "Args, Rets, Attrs");
_Static_assert(
	offsetof(q_frame, args) == 40 && offsetof(q_frame, results) == 80 && offsetof(q_frame, attributes) == 120,
	"CallFrame");
_Static_assert(sizeof(q_frame) == 168, "CallFrame up to attrs");
_Static_assert(offsetof(metadata, traits) == 32 && offsetof(metadata_extension, metadata) == 24, "Metadata");
_Static_assert(offsetof(api, error_create) == 48 && offsetof(api, schedule) == 136 && offsetof(api, threads) == 144 &&
				   offsetof(api, device) == 184,
	"Api");

int q_skip(q_frame *f) {
	for (extension *e = f->extensions; e; e = e->next) {
		if (e->type != EXTENSION_METADATA) continue;
		metadata *m = ((metadata_extension *)e)->metadata;
		m->api_version.major = VERSION_MAJOR;
		m->api_version.minor = VERSION_MINOR;
		m->traits = 0;
		return 1;
	}
	return f->stage != STAGE_EXECUTE;
}

q_error *q_fail(q_frame *f, const char *format, ...) {
	char message[512];
	va_list list;
	va_start(list, format);
	vsnprintf(message, sizeof message, format, list);
	va_end(list);
	error_create_args a = {sizeof a, NULL, message, INVALID_ARGUMENT};
	return f->api->error_create(&a);
}

q_error *q_device(q_frame *f, int *device) {
	if (f->api->struct_size < sizeof *f->api || !f->api->device)
		return q_fail(f, "the plugin does not tell a kernel its device: it is too old");
	device_args a = {sizeof a, NULL, f->context, 0};
	q_error *e = f->api->device(&a);
	*device = a.device;
	return e;
}

int64_t q_args(const q_frame *f) { return f->struct_size < sizeof *f ? 0 : f->args.size; }

int64_t q_results(const q_frame *f) { return f->struct_size < sizeof *f ? 0 : f->results.size; }

q_error *q_count(q_frame *f, int64_t args, int64_t results) {
	if (f->struct_size < sizeof *f) {
		return q_fail(f,
			"the call frame has %zu bytes, this kernel is built for %zu: the plugin's FFI is another version",
			f->struct_size, sizeof *f);
	}
	if (f->args.size != args || f->results.size != results) {
		return q_fail(f, "%lld operands and %lld results, the kernel takes %lld and %lld", (long long)f->args.size,
			(long long)f->results.size, (long long)args, (long long)results);
	}
	return NULL;
}

const q_array *q_arg(const q_frame *f, int i) { return f->args.arrays[i]; }

const q_array *q_result(const q_frame *f, int i) { return f->results.arrays[i]; }

q_error *q_check_shape(q_frame *f, const q_array *a, const char *name, int dtype, int64_t rank, const int64_t *dims) {
	if (dtype && a->dtype != dtype) return q_fail(f, "%s has element type %d, want %d", name, a->dtype, dtype);
	if (a->rank != rank)
		return q_fail(f, "%s has %lld dimensions, want %lld", name, (long long)a->rank, (long long)rank);
	for (int64_t i = 0; i < rank; i++) {
		if (dims[i] < 0 || a->dims[i] == dims[i]) continue;
		return q_fail(f, "dimension %lld of %s is %lld, want %lld", (long long)i, name, (long long)a->dims[i],
			(long long)dims[i]);
	}
	return NULL;
}

int64_t q_elements(const q_array *a) {
	int64_t n = 1;
	for (int64_t i = 0; i < a->rank; i++) n *= a->dims[i];
	return n;
}

size_t q_size(int dtype) {
	switch (dtype) {
	case Q_PRED:
	case Q_S8:
	case Q_U8: return 1;
	case Q_S16:
	case Q_U16:
	case Q_F16:
	case Q_BF16: return 2;
	case Q_S32:
	case Q_U32:
	case Q_F32: return 4;
	case Q_S64:
	case Q_U64:
	case Q_F64: return 8;
	}
	return 0;
}

// attribute returns the attribute with a name and kind, or NULL.
static void *attribute(const q_frame *f, const char *name, int type) {
	size_t size = strlen(name);
	for (int64_t i = 0; i < f->attributes.size; i++) {
		const span *n = f->attributes.names[i];
		if (n->size == size && memcmp(n->data, name, size) == 0) {
			return f->attributes.types[i] == type ? f->attributes.values[i] : NULL;
		}
	}
	return NULL;
}

static q_error *missing(q_frame *f, const char *kind, const char *name) {
	return q_fail(f, "there is no %s attribute %s", kind, name);
}

q_error *q_int(q_frame *f, const char *name, int64_t *out) {
	const scalar *s = attribute(f, name, ATTRIBUTE_SCALAR);
	if (s && s->dtype == Q_S64) *out = *(int64_t *)s->value;
	else if (s && s->dtype == Q_S32) *out = *(int32_t *)s->value;
	else return missing(f, "integer", name);
	return NULL;
}

q_error *q_float(q_frame *f, const char *name, double *out) {
	const scalar *s = attribute(f, name, ATTRIBUTE_SCALAR);
	if (s && s->dtype == Q_F64) *out = *(double *)s->value;
	else if (s && s->dtype == Q_F32) *out = *(float *)s->value;
	else return missing(f, "float", name);
	return NULL;
}

q_error *q_bool(q_frame *f, const char *name, int *out) {
	const scalar *s = attribute(f, name, ATTRIBUTE_SCALAR);
	if (!s || s->dtype != Q_PRED) return missing(f, "bool", name);
	*out = *(uint8_t *)s->value != 0;
	return NULL;
}

q_error *q_string(q_frame *f, const char *name, const char **out, size_t *size) {
	const span *s = attribute(f, name, ATTRIBUTE_STRING);
	if (!s) return missing(f, "string", name);
	*out = s->data;
	*size = s->size;
	return NULL;
}

q_error *q_integers(q_frame *f, const char *name, const int64_t **out, int64_t *n) {
	const numbers *a = attribute(f, name, ATTRIBUTE_ARRAY);
	if (!a || a->dtype != Q_S64) return missing(f, "array of integers as", name);
	*out = a->values;
	*n = (int64_t)a->size;
	return NULL;
}

q_error *q_dictionary(q_frame *f, const char *name, const q_attributes **out) {
	*out = attribute(f, name, ATTRIBUTE_DICTIONARY);
	if (!*out) return missing(f, "dictionary as", name);
	for (int64_t i = 0; i < (*out)->size; i++)
		if ((*out)->types[i] != ATTRIBUTE_DICTIONARY) return missing(f, "dictionary of dictionaries as", name);
	return NULL;
}

int64_t q_entries(const q_attributes *a) { return a->size; }

const q_attributes *q_entry(const q_attributes *a, int64_t i, const char **name, size_t *size) {
	*name = a->names[i]->data;
	*size = a->names[i]->size;
	return a->values[i];
}

q_error *q_call(q_frame *f, q_handler kernel, const q_attributes *attributes, int64_t args, const q_array **arg,
	int64_t results, const q_array **result) {
	q_frame call = {sizeof call, NULL, f->api, f->context, STAGE_EXECUTE, {sizeof call.args, NULL, args, NULL, arg},
		{sizeof call.results, NULL, results, NULL, result}, *attributes};
	return kernel(&call);
}

static _Atomic int64_t most_threads = INT64_MAX, used_threads = INT64_MAX;

void q_set_threads(int64_t most) { atomic_store(&most_threads, most); }

void q_use_threads(int64_t threads) { atomic_store_explicit(&used_threads, threads, memory_order_relaxed); }

int64_t q_threads(q_frame *f) {
	const int64_t all = q_all_threads(f), used = atomic_load_explicit(&used_threads, memory_order_relaxed);
	return used < all ? used : all;
}

int64_t q_all_threads(q_frame *f) {
	int64_t most = atomic_load_explicit(&most_threads, memory_order_relaxed);
	if (most <= 1 || !f || !f->api->threads || !f->api->schedule) return 1;
	int64_t threads = 1;
	threads_args a = {sizeof a, NULL, f->context, &threads};
	q_error *e = f->api->threads(&a);
	if (!e) return threads < 1 ? 1 : threads < most ? threads : most;
	error_destroy_args d = {sizeof d, NULL, e};
	f->api->error_destroy(&d);
	return 1;
}

int q_schedule(q_frame *f, void (*work)(void *), void *data) {
	schedule_args a = {sizeof a, NULL, f->context, work, data};
	q_error *e = f->api->schedule(&a);
	if (!e) return 1;
	error_destroy_args d = {sizeof d, NULL, e};
	f->api->error_destroy(&d);
	return 0;
}
