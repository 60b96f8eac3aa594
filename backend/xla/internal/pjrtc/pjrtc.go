// Package pjrtc makes the few calls of the PJRT C API that go-xla's pjrt package does not, or makes slowly: executing
// programs, copying several arrays to the host at once, serializing and loading executables, reading the optimized
// program, asking a device for its memory, and compiling for a topology without a device.
//
// The structs below repeat the part of the C API that these calls use. The API grows only at the end of its structs,
// and each struct gives its size. A function that the plugin's table does not have is an error.
//
// go-xla keeps its C pointers in unexported fields. This package finds them by name and checks their kind, so another
// version of go-xla is a clear error, not a crash. docs/upstream.md has the changes that would make it unnecessary.
package pjrtc

/*
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

// The compiler leaves several hundred MB of free memory with the allocator, which would keep it.
static void quire_trim(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

// The beginning of PJRT_Api: its size, extensions and version, then the table of functions.
typedef struct {
	size_t struct_size;
	void *extension_start;
	struct { size_t struct_size; void *extension_start; int major, minor; } version;
	void *functions[];
} quire_api;

// Places in the table of functions.
enum {
	ERROR_DESTROY = 0,
	ERROR_MESSAGE = 1,
	EVENT_DESTROY = 5,
	EVENT_AWAIT = 8,
	DEVICE_MEMORY_STATS = 34,
	EXECUTABLE_OPTIMIZED_PROGRAM = 48,
	EXECUTABLE_SERIALIZE = 49,
	LOADED_EXECUTABLE_EXECUTE = 55,
	EXECUTABLE_DESERIALIZE_AND_LOAD = 56,
	BUFFER_TO_HOST_BUFFER = 70,
};

typedef struct { size_t struct_size; void *extension_start; void *error; } error_destroy_args;

typedef struct {
	size_t struct_size; void *extension_start; const void *error; const char *message; size_t message_size;
} error_message_args;

typedef struct {
	size_t struct_size;
	void *extension_start;
	char *code;
	size_t code_size;
	const char *format;
	size_t format_size;
} program;

typedef struct {
	size_t struct_size; void *extension_start; void *executable; program *program;
} optimized_program_args;

typedef struct {
	size_t struct_size;
	void *extension_start;
	const void *executable;
	const char *bytes;
	size_t bytes_size;
	void *serialized;
	void (*deleter)(void *);
} serialize_args;

typedef struct {
	size_t struct_size;
	void *extension_start;
	void *client;
	const char *serialized;
	size_t serialized_size;
	void *loaded;
	const char *compile_options;
	size_t compile_options_size;
} deserialize_args;

typedef struct { int64_t value; _Bool is_set; } optional;

typedef struct {
	size_t struct_size;
	void *extension_start;
	void *device;
	int64_t bytes_in_use;
	optional peak_bytes_in_use, num_allocs, largest_alloc_size, bytes_limit;
	optional bytes_reserved, peak_bytes_reserved, bytes_reservable_limit, largest_free_block_bytes;
	optional pool_bytes, peak_pool_bytes;
} memory_stats_args;

static void *quire_function(const quire_api *api, int index) {
	size_t end = offsetof(quire_api, functions) + (index + 1) * sizeof(void *);
	return api->struct_size < end ? NULL : api->functions[index];
}

typedef void *(*quire_call)(void *args);

// quire_message copies the message of an error, and frees the error.
static char *quire_message(const quire_api *api, void *error, size_t *size) {
	error_message_args m = {sizeof(m), NULL, error, NULL, 0};
	((void (*)(error_message_args *))api->functions[ERROR_MESSAGE])(&m);
	char *copy = malloc(m.message_size + 1);
	for (size_t i = 0; copy && i < m.message_size; i++) copy[i] = m.message[i];
	*size = copy ? m.message_size : 0;
	error_destroy_args d = {sizeof(d), NULL, error};
	((void (*)(error_destroy_args *))api->functions[ERROR_DESTROY])(&d);
	return copy;
}

static void *quire_serialize(const quire_api *api, void *executable, serialize_args *a) {
	a->struct_size = sizeof(*a);
	a->executable = executable;
	return ((quire_call)api->functions[EXECUTABLE_SERIALIZE])(a);
}

static void quire_free_serialized(serialize_args *a) {
	if (a->deleter) a->deleter(a->serialized);
}

static void *quire_load(const quire_api *api, void *client, const char *bytes, size_t size, void **loaded) {
	deserialize_args a = {sizeof(a), NULL, client, bytes, size, NULL, NULL, 0};
	void *error = ((quire_call)api->functions[EXECUTABLE_DESERIALIZE_AND_LOAD])(&a);
	*loaded = a.loaded;
	return error;
}

static void *quire_memory_stats(const quire_api *api, void *device, memory_stats_args *a) {
	a->struct_size = sizeof(*a);
	a->device = device;
	return ((quire_call)api->functions[DEVICE_MEMORY_STATS])(a);
}

// quire_optimized is called twice: without code to learn its size, then with a place for it.
static void *quire_optimized(const quire_api *api, void *executable, char *code, size_t *size,
                             const char **format, size_t *format_size) {
	program p = {sizeof(p), NULL, code, *size, NULL, 0};
	optimized_program_args a = {sizeof(a), NULL, executable, &p};
	void *error = ((quire_call)api->functions[EXECUTABLE_OPTIMIZED_PROGRAM])(&a);
	*size = p.code_size;
	*format = p.format;
	*format_size = p.format_size;
	return error;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"unsafe"

	"github.com/gomlx/go-xla/pjrt"
)

// pinned is the version of go-xla whose fields this package knows.
const pinned = "v0.4.1"

// field follows the named fields from v, a pointer to a struct of go-xla, to one of the wanted kind.
func field(v any, kind reflect.Kind, path ...string) (reflect.Value, error) {
	at := reflect.ValueOf(v)
	for _, name := range path {
		if at.Kind() == reflect.Pointer {
			if at.IsNil() {
				return at, fmt.Errorf("pjrtc: %T was freed", v)
			}
			at = at.Elem()
		}
		if at.Kind() == reflect.Struct {
			at = at.FieldByName(name)
		}
		if !at.IsValid() {
			return at, fmt.Errorf("pjrtc: %T has no field %s: Quire is built for go-xla %s", v, name, pinned)
		}
	}
	if at.Kind() != kind {
		return at, fmt.Errorf("pjrtc: field %v of %T is a %s, not a %s: Quire is built for go-xla %s", path, v,
			at.Kind(), kind, pinned)
	}
	return at, nil
}

func pointer(v any, path ...string) (unsafe.Pointer, error) {
	at, err := field(v, reflect.Pointer, path...)
	if err != nil {
		return nil, err
	}
	if at.IsNil() {
		return nil, fmt.Errorf("pjrtc: %T was freed", v)
	}
	return at.UnsafePointer(), nil
}

// api returns the plugin's table of functions, which has the one at index.
func api(owner any, index int, name string, path ...string) (*C.quire_api, error) {
	p, err := pointer(owner, path...)
	if err != nil {
		return nil, err
	}
	a := (*C.quire_api)(p)
	for _, i := range []int{C.ERROR_DESTROY, C.ERROR_MESSAGE, index} {
		if C.quire_function(a, C.int(i)) == nil {
			return nil, fmt.Errorf("pjrtc: the plugin (PJRT API %d.%d) has no %s", int(a.version.major),
				int(a.version.minor), name)
		}
	}
	return a, nil
}

// executionFunctions returns the plugin's table and four functions of it: to execute, to copy to the host, to await an
// event and to free it. [CheckVersion] has refused plugins without them.
func executionFunctions(client *pjrt.Client) (table unsafe.Pointer, functions [4]unsafe.Pointer, err error) {
	a, err := api(client, C.BUFFER_TO_HOST_BUFFER, "PJRT_Buffer_ToHostBuffer", "plugin", "api")
	if err != nil {
		return nil, functions, err
	}
	places := []C.int{C.LOADED_EXECUTABLE_EXECUTE, C.BUFFER_TO_HOST_BUFFER, C.EVENT_AWAIT, C.EVENT_DESTROY}
	for i, place := range places {
		functions[i] = C.quire_function(a, place)
	}
	return unsafe.Pointer(a), functions, nil
}

func failure(a *C.quire_api, call string, e unsafe.Pointer) error {
	if e == nil {
		return nil
	}
	var size C.size_t
	message := C.quire_message(a, e, &size)
	defer C.free(unsafe.Pointer(message))
	return fmt.Errorf("%s: %s", call, C.GoStringN(message, C.int(size)))
}

// Serialize returns the bytes from which [Load] makes the executable again, in this or another process with the same
// plugin.
func Serialize(e *pjrt.LoadedExecutable) ([]byte, error) {
	const call = "PJRT_Executable_Serialize"
	a, err := api(e, C.EXECUTABLE_SERIALIZE, call, "plugin", "api")
	if err != nil {
		return nil, err
	}
	executable, err := pointer(e, "executable", "wrapper", "c")
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(e)
	return serialize(unsafe.Pointer(a), executable)
}

func serialize(api, executable unsafe.Pointer) ([]byte, error) {
	a := (*C.quire_api)(api)
	if C.quire_function(a, C.EXECUTABLE_SERIALIZE) == nil {
		return nil, errors.New("pjrtc: the plugin can't serialize programs")
	}
	args := (*C.serialize_args)(C.calloc(1, C.sizeof_serialize_args))
	defer C.free(unsafe.Pointer(args))
	if err := failure(a, "PJRT_Executable_Serialize", C.quire_serialize(a, executable, args)); err != nil {
		return nil, err
	}
	defer C.quire_free_serialized(args)
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(args.bytes)), int(args.bytes_size))...), nil
}

// newLoadedExecutable is go-xla's own wrapper of a loaded executable; its last argument is a *C.PJRT_LoadedExecutable.
//
//go:linkname newLoadedExecutable github.com/gomlx/go-xla/pjrt.newLoadedExecutable
func newLoadedExecutable(*pjrt.Plugin, *pjrt.Client, unsafe.Pointer) (*pjrt.LoadedExecutable, error)

// Load makes an executable of the bytes that [Serialize] returned. The plugin refuses bytes of a different version or
// for a different processor.
func Load(client *pjrt.Client, serialized []byte) (*pjrt.LoadedExecutable, error) {
	const call = "PJRT_Executable_DeserializeAndLoad"
	if len(serialized) == 0 {
		return nil, errors.New("pjrtc: a serialized executable has no bytes")
	}
	a, err := api(client, C.EXECUTABLE_DESERIALIZE_AND_LOAD, call, "plugin", "api")
	if err != nil {
		return nil, err
	}
	c, err := pointer(client, "client", "c")
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(client)
	bytes := C.CBytes(serialized)
	defer C.free(bytes)
	var loaded unsafe.Pointer
	if err := failure(a, call, C.quire_load(a, c, (*C.char)(bytes), C.size_t(len(serialized)), &loaded)); err != nil {
		return nil, err
	}
	return newLoadedExecutable(client.Plugin(), client, loaded)
}

// MemoryStats returns the bytes in use on a device, and how many there are in all; limit is 0 if the plugin does not
// say.
func MemoryStats(device *pjrt.Device) (inUse, limit int64, err error) {
	const call = "PJRT_Device_MemoryStats"
	a, err := api(device, C.DEVICE_MEMORY_STATS, call, "plugin", "api")
	if err != nil {
		return 0, 0, err
	}
	d, err := pointer(device, "cDevice")
	if err != nil {
		return 0, 0, err
	}
	defer runtime.KeepAlive(device)
	args := (*C.memory_stats_args)(C.calloc(1, C.sizeof_memory_stats_args))
	defer C.free(unsafe.Pointer(args))
	if err := failure(a, call, C.quire_memory_stats(a, d, args)); err != nil {
		return 0, 0, err
	}
	if args.bytes_limit.is_set {
		limit = int64(args.bytes_limit.value)
	}
	return int64(args.bytes_in_use), limit, nil
}

// OptimizedProgram returns the program as the plugin runs it and the format of the bytes: "hlo" (an HloModuleProto),
// "hlo_with_config" (an HloModuleProtoWithConfig) or "mlir".
func OptimizedProgram(e *pjrt.LoadedExecutable) (code []byte, format string, err error) {
	const call = "PJRT_Executable_OptimizedProgram"
	a, err := api(e, C.EXECUTABLE_OPTIMIZED_PROGRAM, call, "plugin", "api")
	if err != nil {
		return nil, "", err
	}
	executable, err := pointer(e, "executable", "wrapper", "c")
	if err != nil {
		return nil, "", err
	}
	defer runtime.KeepAlive(e)
	return optimized(unsafe.Pointer(a), executable)
}

func optimized(api, executable unsafe.Pointer) (code []byte, format string, err error) {
	const call = "PJRT_Executable_OptimizedProgram"
	a := (*C.quire_api)(api)
	if C.quire_function(a, C.EXECUTABLE_OPTIMIZED_PROGRAM) == nil {
		return nil, "", errors.New("pjrtc: the plugin does not show optimized programs")
	}
	var size, formatSize C.size_t
	var cFormat *C.char
	if err := failure(a, call, C.quire_optimized(a, executable, nil, &size, &cFormat, &formatSize)); err != nil {
		return nil, "", err
	}
	room := (*C.char)(C.malloc(max(size, 1)))
	defer C.free(unsafe.Pointer(room))
	if err := failure(a, call, C.quire_optimized(a, executable, room, &size, &cFormat, &formatSize)); err != nil {
		return nil, "", err
	}
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(room)), int(size))...),
		C.GoStringN(cFormat, C.int(formatSize)), nil
}

// Trim returns memory that C code has freed to the operating system, if the C library can.
func Trim() { C.quire_trim() }
