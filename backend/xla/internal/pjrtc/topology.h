// The calls of the PJRT C API for compiling without a device, and for what a compiled program needs. The structs repeat
// the part of the API that these calls use; see pjrtc.go for what makes that safe.
#ifndef QUIRE_TOPOLOGY_H_
#define QUIRE_TOPOLOGY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Kinds of a named value.
enum { QUIRE_STRING = 0, QUIRE_INT64, QUIRE_INT64_LIST, QUIRE_FLOAT, QUIRE_BOOL };

// quire_named is PJRT_NamedValue.
typedef struct {
	size_t struct_size;
	void *extension_start;
	const char *name;
	size_t name_size;
	int type;
	union {
		const char *string_value;
		int64_t int64_value;
		const int64_t *int64_array_value;
		float float_value;
		_Bool bool_value;
	} as;
	size_t value_size;
} quire_named;

// quire_memory is what PJRT_Executable_GetCompiledMemoryStats returns, after its first three fields.
typedef struct {
	int64_t code, arguments, outputs, aliased, temporary;
	int64_t host_code, host_arguments, host_outputs, host_aliased, host_temporary;
	int64_t peak, total, total_allocation, indefinite, peak_unpadded;
} quire_memory;

// quire_device is a topology's description of one device. The strings belong to the topology.
typedef struct {
	int id, process;
	const char *kind, *debug;
	size_t kind_size, debug_size;
	const quire_named *attributes;
	size_t num_attributes;
} quire_device;

// quire_topology_missing returns the name of the first function that the plugin lacks, or NULL.
const char *quire_topology_missing(const void *api);

// quire_memory_missing and quire_cost_missing do the same for one function each.
const char *quire_memory_missing(const void *api);
const char *quire_cost_missing(const void *api);

// All functions below return an error of the plugin, or NULL. quire_error_text copies its code and message, and frees
// it.
char *quire_error_text(const void *api, void *error, int *code, size_t *size);

void *quire_topology_create(const void *api, const char *name, size_t name_size, const quire_named *options,
	size_t num_options, void **topology);
void *quire_topology_platform(
	const void *api, void *topology, const char **name, size_t *name_size, const char **version, size_t *version_size);
void *quire_topology_attributes(const void *api, void *topology, const quire_named **attributes, size_t *num);
void *quire_topology_devices(const void *api, void *topology, void *const **devices, size_t *num);
void *quire_topology_device(const void *api, void *device, quire_device *out);
void quire_topology_destroy(const void *api, void *topology);

void *quire_topology_compile(const void *api, void *topology, const char *code, size_t code_size, const char *options,
	size_t options_size, void **executable);
void quire_executable_destroy(const void *api, void *executable);
void *quire_executable_memory(const void *api, void *executable, quire_memory *out);
void *quire_executable_cost(const void *api, void *executable, const quire_named **properties, size_t *num);

#endif
