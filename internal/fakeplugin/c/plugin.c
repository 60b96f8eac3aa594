// A PJRT plugin that does what a script says, for tests. fakeplugin.go describes the script.
//
// By itself it has devices that hold arrays and programs that return copies of their inputs. With real=PATH it is that
// plugin, whose calls it delays, fails or never answers. memory.c and table.c follow in the same file.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pjrt_c_api.h"

extern char **environ;

enum { MAX_RULES = 64, MAX_DEVICES = 64, MAX_ERRORS = 256, MAX_DIMS = 8 };

struct PJRT_Error { int used, code; char message[512]; };
struct PJRT_Event { int unused; };
struct PJRT_DeviceDescription {
	int id, process;
	char text[96];
	PJRT_NamedValue attributes[2];
	int64_t coords[3];
};
struct PJRT_Device { struct PJRT_DeviceDescription description; int local; };
struct PJRT_Client { int unused; };
struct PJRT_TopologyDescription { char name[64]; };
struct PJRT_Executable { int unused; };
struct PJRT_LoadedExecutable { int unused; };
struct PJRT_Buffer {
	PJRT_Device *device;
	PJRT_Buffer_Type type;
	int64_t dims[MAX_DIMS];
	size_t num_dims, size;
	void *data;
};

// A rule of the script: the effect on the calls of a function from number from to number to.
typedef struct {
	char function[64], action[16], message[256];
	long from, to, calls;
	double seconds;
	int code;
} rule;

static struct {
	char real[512], platform[32], kind[64], topology[64], log[512];
	int major, minor, functions, devices, processes, process, outputs;
	int64_t memory;
	rule rules[MAX_RULES];
	int num_rules;
} script = {
	.platform = "fake", .kind = "fake device", .minor = PJRT_API_MINOR, .devices = 1, .processes = 1, .outputs = 1,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct PJRT_Error errors[MAX_ERRORS];
static struct PJRT_Device devices[MAX_DEVICES];
static PJRT_Device *all[MAX_DEVICES], *here[MAX_DEVICES];
static PJRT_DeviceDescription *descriptions[MAX_DEVICES];
static int num_here;
static const PJRT_Api *real;
static union { PJRT_Api api; char room[8192]; } table;

static void note(const char *line) {
	if (!*script.log) return;
	FILE *f = fopen(script.log, "a");
	if (!f) return;
	fprintf(f, "%s\n", line);
	fclose(f);
}

// Writes the plugin's environment.
static void note_environment(void) {
	static const char *prefixes[] = {"TPU_", "CLOUD_TPU_", "MEGASCALE_", "ALLOW_MULTIPLE_"};
	for (char **v = environ; *v; v++)
		for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
			if (!strncmp(*v, prefixes[i], strlen(prefixes[i]))) {
				char line[1024];
				snprintf(line, sizeof(line), "env %s", *v);
				note(line);
			}
}

static PJRT_Error *fail(int code, const char *message) {
	pthread_mutex_lock(&lock);
	PJRT_Error *e = NULL;
	for (int i = 0; i < MAX_ERRORS && !e; i++)
		if (!errors[i].used) e = &errors[i];
	if (!e) abort();
	e->used = 1;
	e->code = code;
	snprintf(e->message, sizeof(e->message), "%s", message);
	pthread_mutex_unlock(&lock);
	return e;
}

static int ours(const PJRT_Error *e) { return e >= errors && e < errors + MAX_ERRORS; }

static void pass(double seconds) {
	struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	while (nanosleep(&left, &left)) {}
}

// obey applies the script to a call; NULL lets the call continue.
static PJRT_Error *obey(const char *function) {
	rule *found = NULL;
	note(function);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < script.num_rules; i++) {
		rule *r = &script.rules[i];
		if (strcmp(r->function, function)) continue;
		r->calls++;
		if (!found && r->calls >= r->from && r->calls <= r->to) found = r;
	}
	pthread_mutex_unlock(&lock);
	if (!found) return NULL;
	if (!strcmp(found->action, "hang")) for (;;) pass(3600);
	if (!strcmp(found->action, "sleep")) pass(found->seconds);
	if (!strcmp(found->action, "exit")) _exit(found->code);
	if (!strcmp(found->action, "error")) return fail(found->code, found->message);
	return NULL;
}

static void bad(const char *entry) {
	fprintf(stderr, "fakeplugin: the script has an entry %s, which it can't be\n", entry);
	abort();
}

// FUNCTION[@N[+]]: ACTION ...
static void read_rule(char *entry, char *colon) {
	if (script.num_rules == MAX_RULES) bad(entry);
	rule *r = &script.rules[script.num_rules++];
	r->from = 1;
	r->to = INT64_MAX;
	*colon = 0;
	char *at = strchr(entry, '@');
	if (at) {
		*at++ = 0;
		r->from = strtol(at, &at, 10);
		if (*at != '+') r->to = r->from;
	}
	snprintf(r->function, sizeof(r->function), "PJRT_%s", entry);
	int used = 0;
	if (sscanf(colon + 1, " %15s %n", r->action, &used) != 1) bad(entry);
	char *rest = colon + 1 + used;
	if (!strcmp(r->action, "sleep")) r->seconds = strtod(rest, NULL);
	else if (!strcmp(r->action, "exit")) r->code = atoi(rest);
	else if (!strcmp(r->action, "error")) {
		r->code = (int)strtol(rest, &rest, 10);
		snprintf(r->message, sizeof(r->message), "%s", *rest ? rest + 1 : "it fails");
	} else if (strcmp(r->action, "hang")) bad(entry);
}

static void read_entry(char *entry) {
	while (*entry == ' ' || *entry == '\n') entry++;
	if (!*entry) return;
	char *equals = strchr(entry, '='), *colon = strchr(entry, ':');
	if (colon && (!equals || colon < equals)) {
		read_rule(entry, colon);
		return;
	}
	if (!equals) bad(entry);
	*equals++ = 0;
	struct { const char *name; char *text; size_t size; int *number; } known[] = {
		{"real", script.real, sizeof(script.real), NULL}, {"log", script.log, sizeof(script.log), NULL},
		{"platform", script.platform, sizeof(script.platform), NULL}, {"kind", script.kind, sizeof(script.kind), NULL},
		{"topology", script.topology, sizeof(script.topology), NULL}, {"functions", NULL, 0, &script.functions},
		{"devices", NULL, 0, &script.devices}, {"processes", NULL, 0, &script.processes},
		{"process", NULL, 0, &script.process}, {"outputs", NULL, 0, &script.outputs},
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(entry, known[i].name)) {
			if (known[i].text) snprintf(known[i].text, known[i].size, "%s", equals);
			else *known[i].number = atoi(equals);
			return;
		}
	if (!strcmp(entry, "memory")) script.memory = strtoll(equals, NULL, 10);
	else if (strcmp(entry, "api") || sscanf(equals, "%d.%d", &script.major, &script.minor) != 2) bad(entry);
}

// ---- The calls of a plugin of its own.

static void error_destroy(PJRT_Error_Destroy_Args *a) {
	if (a->error && !ours(a->error)) real->PJRT_Error_Destroy(a);
	else if (a->error) a->error->used = 0;
}

static void error_message(PJRT_Error_Message_Args *a) {
	if (!ours(a->error)) {
		real->PJRT_Error_Message(a);
		return;
	}
	a->message = a->error->message;
	a->message_size = strlen(a->error->message);
}

static PJRT_Error *error_code(PJRT_Error_GetCode_Args *a) {
	if (!ours(a->error)) return real->PJRT_Error_GetCode(a);
	a->code = a->error->code;
	return NULL;
}

static PJRT_Error *plugin_initialize(PJRT_Plugin_Initialize_Args *a) { (void)a; return NULL; }
static PJRT_Error *plugin_attributes(PJRT_Plugin_Attributes_Args *a) { a->num_attributes = 0; return NULL; }
static PJRT_Error *event_destroy(PJRT_Event_Destroy_Args *a) { free(a->event); return NULL; }
static PJRT_Error *event_await(PJRT_Event_Await_Args *a) { (void)a; return NULL; }

static PJRT_Error *client_create(PJRT_Client_Create_Args *a) { a->client = calloc(1, sizeof(*a->client)); return NULL; }
static PJRT_Error *client_destroy(PJRT_Client_Destroy_Args *a) { free(a->client); return NULL; }

// Calls that set fields of their arguments, and calls that answer with a text.
#define SETS(own, name, ...) \
	static PJRT_Error *own(PJRT_##name##_Args *a) { \
		__VA_ARGS__; \
		return NULL; \
	}
#define TEXT(own, name, field, text) SETS(own, name, a->field = text, a->field##_size = strlen(text))

TEXT(client_platform, Client_PlatformName, platform_name, script.platform)
TEXT(client_version, Client_PlatformVersion, platform_version, "fake")
TEXT(description_kind, DeviceDescription_Kind, device_kind, script.kind)
TEXT(description_debug, DeviceDescription_DebugString, debug_string, a->device_description->text)
TEXT(description_string, DeviceDescription_ToString, to_string, a->device_description->text)
TEXT(executable_name, Executable_Name, executable_name, "fake")
TEXT(topology_platform, TopologyDescription_PlatformName, platform_name, script.platform)
TEXT(topology_version, TopologyDescription_PlatformVersion, platform_version, "fake")
SETS(client_process, Client_ProcessIndex, a->process_index = script.process)
SETS(client_devices, Client_Devices, a->devices = all, a->num_devices = script.devices)
SETS(client_addressable, Client_AddressableDevices, a->addressable_devices = here,
	a->num_addressable_devices = num_here)

static PJRT_Error *client_assignment(PJRT_Client_DefaultDeviceAssignment_Args *a) {
	for (int i = 0; i < a->num_replicas * a->num_partitions; i++) a->default_assignment[i] = i;
	return NULL;
}

SETS(device_description, Device_GetDescription, a->device_description = &a->device->description)
SETS(device_addressable, Device_IsAddressable, a->is_addressable = a->device->description.process == script.process)
SETS(device_local, Device_LocalHardwareId, a->local_hardware_id = a->device->local)
SETS(device_memory, Device_MemoryStats, a->bytes_in_use = 0, a->bytes_limit = script.memory,
	a->bytes_limit_is_set = script.memory > 0)
SETS(description_id, DeviceDescription_Id, a->id = a->device_description->id)
SETS(description_process, DeviceDescription_ProcessIndex, a->process_index = a->device_description->process)
SETS(description_attributes, DeviceDescription_Attributes, a->attributes = a->device_description->attributes,
	a->num_attributes = script.memory > 0 ? 2 : 1)
SETS(client_compile, Client_Compile, a->executable = calloc(1, sizeof(*a->executable)))
SETS(loaded_executable, LoadedExecutable_GetExecutable, a->executable = calloc(1, sizeof(*a->executable)))

static PJRT_Error *loaded_destroy(PJRT_LoadedExecutable_Destroy_Args *a) { free(a->executable); return NULL; }
static PJRT_Error *executable_destroy(PJRT_Executable_Destroy_Args *a) { free(a->executable); return NULL; }

SETS(executable_outputs, Executable_NumOutputs, a->num_outputs = script.outputs)

static PJRT_Error *executable_memory(PJRT_Executable_GetCompiledMemoryStats_Args *a) {
	const size_t first = offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, generated_code_size_in_bytes);
	memset(&a->generated_code_size_in_bytes, 0, a->struct_size - first);
	return NULL;
}

static PJRT_Buffer *copy_buffer(const PJRT_Buffer *from, PJRT_Device *device) {
	PJRT_Buffer *b = malloc(sizeof(*b));
	*b = *from;
	if (device) b->device = device;
	b->data = malloc(b->size ? b->size : 1);
	memcpy(b->data, from->data, b->size);
	return b;
}

// A program's output i is a copy of its input i.
static PJRT_Error *execute(PJRT_LoadedExecutable_Execute_Args *a) {
	if (!a->num_args) return fail(PJRT_Error_Code_UNIMPLEMENTED, "a program of the fake plugin has inputs");
	for (size_t d = 0; d < a->num_devices; d++) {
		for (int i = 0; i < script.outputs; i++)
			a->output_lists[d][i] = copy_buffer(a->argument_lists[d][(size_t)i % a->num_args], a->execute_device);
		if (a->device_complete_events) a->device_complete_events[d] = calloc(1, sizeof(PJRT_Event));
	}
	return NULL;
}

static size_t bytes_of(PJRT_Buffer_Type type) {
	switch (type) {
	case PJRT_Buffer_Type_PRED: case PJRT_Buffer_Type_S8: case PJRT_Buffer_Type_U8: return 1;
	case PJRT_Buffer_Type_S16: case PJRT_Buffer_Type_U16: return 2;
	case PJRT_Buffer_Type_F16: case PJRT_Buffer_Type_BF16: return 2;
	case PJRT_Buffer_Type_S64: case PJRT_Buffer_Type_U64: return 8;
	case PJRT_Buffer_Type_F64: case PJRT_Buffer_Type_C64: return 8;
	case PJRT_Buffer_Type_C128: return 16;
	default: return 4;
	}
}

static PJRT_Error *from_host(PJRT_Client_BufferFromHostBuffer_Args *a) {
	if (a->num_dims > MAX_DIMS)
		return fail(PJRT_Error_Code_UNIMPLEMENTED, "an array of the fake plugin has 8 axes at most");
	PJRT_Buffer from = {.device = a->device ? a->device : here[0], .type = a->type, .num_dims = a->num_dims,
		.size = bytes_of(a->type), .data = (void *)a->data};
	for (size_t i = 0; i < a->num_dims; i++) {
		from.dims[i] = a->dims[i];
		from.size *= (size_t)a->dims[i];
	}
	a->buffer = copy_buffer(&from, NULL);
	a->done_with_host_buffer = calloc(1, sizeof(PJRT_Event));
	return NULL;
}

static PJRT_Error *to_host(PJRT_Buffer_ToHostBuffer_Args *a) {
	if (a->dst) memcpy(a->dst, a->src->data, a->src->size < a->dst_size ? a->src->size : a->dst_size);
	a->dst_size = a->src->size;
	a->event = calloc(1, sizeof(PJRT_Event));
	return NULL;
}

static PJRT_Error *buffer_destroy(PJRT_Buffer_Destroy_Args *a) {
	if (a->buffer) free(a->buffer->data);
	free(a->buffer);
	return NULL;
}

SETS(buffer_device, Buffer_Device, a->device = a->buffer->device)
SETS(buffer_type, Buffer_ElementType, a->type = a->buffer->type)
SETS(buffer_dimensions, Buffer_Dimensions, a->dims = a->buffer->dims, a->num_dims = a->buffer->num_dims)

static PJRT_Error *topology_create(PJRT_TopologyDescription_Create_Args *a) {
	char name[64], message[160];
	snprintf(name, sizeof(name), "%.*s", (int)a->topology_name_size, a->topology_name);
	if (strcmp(name, script.topology)) {
		snprintf(message, sizeof(message), "there is no topology %s", name);
		return fail(PJRT_Error_Code_INVALID_ARGUMENT, message);
	}
	a->topology = calloc(1, sizeof(*a->topology));
	snprintf(a->topology->name, sizeof(a->topology->name), "%s", name);
	return NULL;
}

static PJRT_Error *topology_destroy(PJRT_TopologyDescription_Destroy_Args *a) { free(a->topology); return NULL; }

SETS(topology_devices, TopologyDescription_GetDeviceDescriptions, a->descriptions = descriptions,
	a->num_descriptions = script.devices)
SETS(topology_attributes, TopologyDescription_Attributes, a->num_attributes = 0)
SETS(compile, Compile, a->executable = calloc(1, sizeof(*a->executable)))
