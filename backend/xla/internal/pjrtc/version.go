package pjrtc

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

typedef struct {
	size_t struct_size;
	void *extension_start;
	struct { size_t struct_size; void *extension_start; int major, minor; } version;
	void *functions[];
} versioned_api;

// quire_api_of loads a plugin and returns its table; NULL if it has none. go-xla loads it again, which returns the same
// library.
static const versioned_api *quire_api_of(const char *path) {
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	const versioned_api *(*get)(void) = library ? (const versioned_api *(*)(void))dlsym(library, "GetPjrtApi") : NULL;
	return get ? get() : NULL;
}

static int quire_has(const versioned_api *api, int index) {
	size_t end = offsetof(versioned_api, functions) + (size_t)(index + 1) * sizeof(void *);
	return api->struct_size >= end && api->functions[index];
}
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// VersionError reports that a plugin's version of the PJRT API is not one that Quire can call.
type VersionError struct {
	Path         string
	Major, Minor int
	Lacks        string // the first function that the plugin's table does not have; empty if Major is another
}

// Error is one sentence with the remedy.
func (e *VersionError) Error() string {
	if e.Lacks == "" {
		return fmt.Sprintf("%s has version %d.%d of the PJRT API, and Quire knows %d.x: use a plugin of that version",
			e.Path, e.Major, e.Minor, apiMajor)
	}
	return fmt.Sprintf("%s has version %d.%d of the PJRT API, which lacks %s: use a newer plugin", e.Path, e.Major,
		e.Minor, e.Lacks)
}

// apiMajor is the version of the API that these packages call. Its minor versions add functions and fields.
const apiMajor = 0

// needed are the functions that go-xla calls for a client, without asking whether they are there.
var needed = []struct {
	name  string
	index int
}{
	{"PJRT_Error_Destroy", 0}, {"PJRT_Error_Message", 1}, {"PJRT_Error_GetCode", 2}, {"PJRT_Plugin_Initialize", 3},
	{"PJRT_Plugin_Attributes", 4}, {"PJRT_Event_Destroy", 5}, {"PJRT_Event_Await", 8}, {"PJRT_Client_Create", 10},
	{"PJRT_Client_Destroy", 11}, {"PJRT_Client_PlatformName", 12}, {"PJRT_Client_ProcessIndex", 13},
	{"PJRT_Client_PlatformVersion", 14}, {"PJRT_Client_Devices", 15}, {"PJRT_Client_AddressableDevices", 16},
	{"PJRT_Client_Compile", 20}, {"PJRT_Client_BufferFromHostBuffer", 22}, {"PJRT_Device_GetDescription", 29},
	{"PJRT_Device_IsAddressable", 30}, {"PJRT_Device_LocalHardwareId", 31}, {"PJRT_Executable_Destroy", 40},
	{"PJRT_Executable_Name", 41}, {"PJRT_Executable_NumOutputs", 44}, {"PJRT_LoadedExecutable_Destroy", 50},
	{"PJRT_LoadedExecutable_GetExecutable", 51}, {"PJRT_LoadedExecutable_Execute", 55}, {"PJRT_Buffer_Destroy", 58},
	{"PJRT_Buffer_ToHostBuffer", 70}, {"PJRT_Executable_GetCompiledMemoryStats", 96},
}

// CheckVersion loads the plugin of a path and returns a [*VersionError] if calling it would not be safe. If the file is
// not a plugin it returns nil, because opening it will fail.
func CheckVersion(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	api := C.quire_api_of(name)
	if api == nil {
		return nil
	}
	e := &VersionError{Path: path, Major: int(api.version.major), Minor: int(api.version.minor)}
	if e.Major != apiMajor {
		return e
	}
	for _, f := range needed {
		if C.quire_has(api, C.int(f.index)) == 0 {
			e.Lacks = f.name
			return e
		}
	}
	return nil
}
