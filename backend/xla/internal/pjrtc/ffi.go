package pjrtc

/*
#include <stdlib.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ffi_api {
	size_t struct_size;
	struct ffi_extension *extensions;
	struct { size_t struct_size; void *extension_start; int major, minor; } version;
	void *destroy;
	void *message;
} ffi_api;

typedef struct {
	size_t struct_size;
	const char *target;
	size_t target_size;
	void *handler;
	const char *platform;
	size_t platform_size;
	int traits;
} ffi_register_args;

typedef struct ffi_extension {
	size_t struct_size;
	int type;
	struct ffi_extension *next;
	// Of the extension for foreign functions only.
	void *type_id_register, *user_data_add;
	void *(*register_handler)(ffi_register_args *);
} ffi_extension;

enum { FFI_EXTENSION = 5 };

static ffi_extension *quire_ffi(const ffi_api *api) {
	for (ffi_extension *e = api->extensions; e; e = e->next) {
		if (e->type == FFI_EXTENSION) return e->struct_size < sizeof(ffi_extension) || !e->register_handler ? NULL : e;
	}
	return NULL;
}

static void *quire_register(const ffi_extension *e, const char *target, size_t target_size, void *handler,
                            const char *platform, size_t platform_size) {
	ffi_register_args a = {sizeof(a), target, target_size, handler, platform, platform_size, 0};
	return e->register_handler(&a);
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/gomlx/go-xla/pjrt"
)

// ffiMinor is the first minor version of PJRT API 0 whose registration of handlers takes its arguments as they are
// here: earlier ones have one more.
const ffiMinor = 115

// registered are the handlers that plugins have: they may be given once only.
var registered = struct {
	sync.Mutex
	handlers map[registration]unsafe.Pointer
}{handlers: map[registration]unsafe.Pointer{}}

type registration struct {
	api              unsafe.Pointer
	platform, target string
}

// HasFFI reports whether the plugin takes handlers of custom calls from outside: see [RegisterHandler].
func HasFFI(plugin *pjrt.Plugin) bool {
	a, err := api(plugin, 0, "", "api")
	if err != nil {
		return false
	}
	return a.version.major == 0 && a.version.minor >= ffiMinor && C.quire_ffi((*C.ffi_api)(unsafe.Pointer(a))) != nil
}

// RegisterHandler lets programs of the plugin call handler, an XLA_FFI_Handler, by a custom call of the typed FFI to
// target. It is once a process and plugin: the same handler again is ignored, another for the same target is an error.
// platform is the plugin's own name for it: "Host" for the CPU.
func RegisterHandler(plugin *pjrt.Plugin, platform, target string, handler unsafe.Pointer) error {
	const call = "PJRT_FFI_Register_Handler"
	if !HasFFI(plugin) {
		return fmt.Errorf(
			"pjrtc: the plugin takes no handlers of custom calls: it needs PJRT API 0.%d and the FFI extension",
			ffiMinor)
	}
	a, err := api(plugin, 0, call, "api")
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(plugin)
	registered.Lock()
	defer registered.Unlock()
	key := registration{unsafe.Pointer(a), platform, target}
	if known, ok := registered.handlers[key]; ok {
		if known != handler {
			return fmt.Errorf("pjrtc: the custom call %s has another handler already", target)
		}
		return nil
	}
	cTarget, cPlatform := C.CString(target), C.CString(platform)
	defer C.free(unsafe.Pointer(cTarget))
	defer C.free(unsafe.Pointer(cPlatform))
	extension := C.quire_ffi((*C.ffi_api)(unsafe.Pointer(a)))
	e := C.quire_register(extension, cTarget, C.size_t(len(target)), handler, cPlatform, C.size_t(len(platform)))
	if err := failure(a, call, e); err != nil {
		return fmt.Errorf("%w (target %s)", err, target)
	}
	registered.handlers[key] = handler
	return nil
}
