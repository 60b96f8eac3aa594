#include "topology.h"

#include <stdlib.h>
#include <string.h>

// The beginning of PJRT_Api, as in pjrtc.go.
typedef struct {
	size_t struct_size;
	void *extension_start;
	struct {
		size_t struct_size;
		void *extension_start;
		int major, minor;
	} version;
	void *functions[];
} table;

// Places in the table of functions.
enum {
	ERROR_DESTROY = 0,
	ERROR_MESSAGE = 1,
	ERROR_CODE = 2,
	DEVICE_ID = 23,
	DEVICE_PROCESS = 24,
	DEVICE_ATTRIBUTES = 25,
	DEVICE_KIND = 26,
	DEVICE_DEBUG = 27,
	EXECUTABLE_DESTROY = 40,
	EXECUTABLE_COST = 46,
	TOPOLOGY_CREATE = 82,
	TOPOLOGY_DESTROY = 83,
	TOPOLOGY_PLATFORM_NAME = 84,
	TOPOLOGY_PLATFORM_VERSION = 85,
	TOPOLOGY_DEVICES = 86,
	TOPOLOGY_ATTRIBUTES = 88,
	COMPILE = 89,
	EXECUTABLE_MEMORY = 96,
};

typedef void *(*call)(void *args);

static call function(const void *api, int index) {
	const table *t = api;
	size_t end = offsetof(table, functions) + (index + 1) * sizeof(void *);
	return t->struct_size < end ? NULL : (call)t->functions[index];
}

const char *quire_topology_missing(const void *api) {
	static const struct {
		int index;
		const char *name;
	} needed[] = {
		{ERROR_CODE, "PJRT_Error_GetCode"},
		{DEVICE_ID, "PJRT_DeviceDescription_Id"},
		{DEVICE_PROCESS, "PJRT_DeviceDescription_ProcessIndex"},
		{DEVICE_ATTRIBUTES, "PJRT_DeviceDescription_Attributes"},
		{DEVICE_KIND, "PJRT_DeviceDescription_Kind"},
		{DEVICE_DEBUG, "PJRT_DeviceDescription_DebugString"},
		{EXECUTABLE_DESTROY, "PJRT_Executable_Destroy"},
		{TOPOLOGY_CREATE, "PJRT_TopologyDescription_Create"},
		{TOPOLOGY_DESTROY, "PJRT_TopologyDescription_Destroy"},
		{TOPOLOGY_PLATFORM_NAME, "PJRT_TopologyDescription_PlatformName"},
		{TOPOLOGY_PLATFORM_VERSION, "PJRT_TopologyDescription_PlatformVersion"},
		{TOPOLOGY_DEVICES, "PJRT_TopologyDescription_GetDeviceDescriptions"},
		{TOPOLOGY_ATTRIBUTES, "PJRT_TopologyDescription_Attributes"},
		{COMPILE, "PJRT_Compile"},
	};
	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (!function(api, needed[i].index)) return needed[i].name;
	return NULL;
}

const char *quire_memory_missing(const void *api) {
	return function(api, EXECUTABLE_MEMORY) ? NULL : "PJRT_Executable_GetCompiledMemoryStats";
}

const char *quire_cost_missing(const void *api) {
	return function(api, EXECUTABLE_COST) ? NULL : "PJRT_Executable_GetCostAnalysis";
}

char *quire_error_text(const void *api, void *error, int *code, size_t *size) {
	struct {
		size_t struct_size;
		void *extension_start;
		const void *error;
		int code;
	} c = {sizeof(c), NULL, error, 0};
	*code = 0;
	void *failed = function(api, ERROR_CODE)(&c);
	if (!failed) *code = c.code;
	struct {
		size_t struct_size;
		void *extension_start;
		const void *error;
		const char *message;
		size_t size;
	} m = {sizeof(m), NULL, error, NULL, 0};
	((void (*)(void *))function(api, ERROR_MESSAGE))(&m);
	char *copy = malloc(m.size + 1);
	if (copy) memcpy(copy, m.message, m.size);
	*size = copy ? m.size : 0;
	struct {
		size_t struct_size;
		void *extension_start;
		void *error;
	} d = {sizeof(d), NULL, error};
	((void (*)(void *))function(api, ERROR_DESTROY))(&d);
	return copy;
}

void *quire_topology_create(const void *api, const char *name, size_t name_size, const quire_named *options,
	size_t num_options, void **topology) {
	struct {
		size_t struct_size;
		void *extension_start;
		const char *name;
		size_t name_size;
		const quire_named *options;
		size_t num_options;
		void *topology;
	} a = {sizeof(a), NULL, name, name_size, options, num_options, NULL};
	void *error = function(api, TOPOLOGY_CREATE)(&a);
	*topology = a.topology;
	return error;
}

// An object in, a string or an array out: the form of many calls.
typedef struct {
	size_t struct_size;
	void *extension_start;
	const void *object;
	const void *out;
	size_t size;
} get_args;

static void *get(const void *api, int index, const void *object, const void **out, size_t *size) {
	get_args a = {sizeof(a), NULL, object, NULL, 0};
	void *error = function(api, index)(&a);
	*out = a.out;
	*size = a.size;
	return error;
}

void *quire_topology_platform(
	const void *api, void *topology, const char **name, size_t *name_size, const char **version, size_t *version_size) {
	void *error = get(api, TOPOLOGY_PLATFORM_NAME, topology, (const void **)name, name_size);
	return error ? error : get(api, TOPOLOGY_PLATFORM_VERSION, topology, (const void **)version, version_size);
}

// The calls for attributes also return the array first and then its length.
void *quire_topology_attributes(const void *api, void *topology, const quire_named **attributes, size_t *num) {
	return get(api, TOPOLOGY_ATTRIBUTES, topology, (const void **)attributes, num);
}

void *quire_topology_devices(const void *api, void *topology, void *const **devices, size_t *num) {
	return get(api, TOPOLOGY_DEVICES, topology, (const void **)devices, num);
}

static void *number(const void *api, int index, void *device, int *out) {
	struct {
		size_t struct_size;
		void *extension_start;
		void *device;
		int out;
	} a = {sizeof(a), NULL, device, 0};
	void *error = function(api, index)(&a);
	*out = a.out;
	return error;
}

void *quire_topology_device(const void *api, void *device, quire_device *out) {
	void *error = number(api, DEVICE_ID, device, &out->id);
	if (!error) error = number(api, DEVICE_PROCESS, device, &out->process);
	if (!error) error = get(api, DEVICE_KIND, device, (const void **)&out->kind, &out->kind_size);
	if (!error) error = get(api, DEVICE_DEBUG, device, (const void **)&out->debug, &out->debug_size);
	if (error) return error;
	struct {
		size_t struct_size;
		void *extension_start;
		void *device;
		size_t num;
		const quire_named *attributes;
	} a = {sizeof(a), NULL, device, 0, NULL};
	error = function(api, DEVICE_ATTRIBUTES)(&a);
	out->attributes = a.attributes;
	out->num_attributes = a.num;
	return error;
}

// The errors of freeing have nobody to go to.
static void destroy(const void *api, int index, void *object) {
	struct {
		size_t struct_size;
		void *extension_start;
		void *object;
	} a = {sizeof(a), NULL, object};
	void *error = function(api, index)(&a);
	if (error) {
		struct {
			size_t struct_size;
			void *extension_start;
			void *error;
		} d = {sizeof(d), NULL, error};
		((void (*)(void *))function(api, ERROR_DESTROY))(&d);
	}
}

void quire_topology_destroy(const void *api, void *topology) { destroy(api, TOPOLOGY_DESTROY, topology); }

void quire_executable_destroy(const void *api, void *executable) { destroy(api, EXECUTABLE_DESTROY, executable); }

void *quire_topology_compile(const void *api, void *topology, const char *code, size_t code_size, const char *options,
	size_t options_size, void **executable) {
	struct {
		size_t struct_size;
		void *extension_start;
		const char *code;
		size_t code_size;
		const char *format;
		size_t format_size;
	} program = {sizeof(program), NULL, code, code_size, "mlir", 4};
	struct {
		size_t struct_size;
		void *extension_start;
		const void *topology;
		const void *program;
		const char *options;
		size_t options_size;
		void *client, *executable;
	} a = {sizeof(a), NULL, topology, &program, options, options_size, NULL, NULL};
	void *error = function(api, COMPILE)(&a);
	*executable = a.executable;
	return error;
}

void *quire_executable_memory(const void *api, void *executable, quire_memory *out) {
	// Fields that an older plugin does not fill in stay -1.
	struct {
		size_t struct_size;
		void *extension_start;
		void *executable;
		quire_memory stats;
	} a;
	memset(&a, 0xff, sizeof(a));
	a.struct_size = sizeof(a);
	a.extension_start = NULL;
	a.executable = executable;
	void *error = function(api, EXECUTABLE_MEMORY)(&a);
	*out = a.stats;
	return error;
}

void *quire_executable_cost(const void *api, void *executable, const quire_named **properties, size_t *num) {
	struct {
		size_t struct_size;
		void *extension_start;
		void *executable;
		size_t num;
		const quire_named *properties;
	} a = {sizeof(a), NULL, executable, 0, NULL};
	void *error = function(api, EXECUTABLE_COST)(&a);
	*properties = a.properties;
	*num = a.num;
	return error;
}
