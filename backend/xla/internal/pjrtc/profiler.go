package pjrtc

/*
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// PJRT_Extension_Base: the fields that each extension of a plugin starts with.
typedef struct quire_extension {
	size_t struct_size;
	int type;
	struct quire_extension *next;
} quire_extension;

enum { QUIRE_PROFILER_EXTENSION = 1 };

// PLUGIN_Profiler_Api, as far as it is used here.
typedef void *(*quire_profiler_call)(void *args);
typedef struct {
	size_t struct_size;
	void *priv;
	quire_profiler_call error_destroy, error_message, error_code;
	quire_profiler_call create, destroy, start, stop, collect;
} quire_profiler_api;

typedef struct { quire_extension base; quire_profiler_api *profiler; } quire_profiler_extension;

typedef struct { size_t struct_size; void *priv; void *error; } profiler_error_args;

typedef struct {
	size_t struct_size; void *priv; const void *error; const char *message; size_t message_size;
} profiler_message_args;

typedef struct { size_t struct_size; const char *options; size_t options_size; void *profiler; } profiler_create_args;

typedef struct { size_t struct_size; void *profiler; } profiler_args;

typedef struct { size_t struct_size; void *profiler; uint8_t *buffer; size_t buffer_size; } profiler_collect_args;

// quire_profiler finds the profiler of a plugin; NULL if it has none.
static quire_profiler_api *quire_profiler(const void *api) {
	const struct { size_t struct_size; const quire_extension *extensions; } *a = api;
	for (const quire_extension *e = a->extensions; e; e = e->next) {
		if (e->type != QUIRE_PROFILER_EXTENSION || e->struct_size < sizeof(quire_profiler_extension)) continue;
		quire_profiler_api *p = ((const quire_profiler_extension *)e)->profiler;
		if (p && p->struct_size >= sizeof(quire_profiler_api)) return p;
	}
	return NULL;
}

// quire_profiler_message copies the message of an error, and frees the error.
static char *quire_profiler_message(const quire_profiler_api *p, void *error, size_t *size) {
	profiler_message_args m = {sizeof(m), NULL, error, NULL, 0};
	p->error_message(&m);
	char *copy = malloc(m.message_size + 1);
	for (size_t i = 0; copy && i < m.message_size; i++) copy[i] = m.message[i];
	*size = copy ? m.message_size : 0;
	profiler_error_args d = {sizeof(d), NULL, error};
	p->error_destroy(&d);
	return copy;
}

static void *quire_profiler_create(const quire_profiler_api *p, const char *options, size_t size, void **profiler) {
	profiler_create_args a = {sizeof(a), options, size, NULL};
	void *error = p->create(&a);
	*profiler = a.profiler;
	return error;
}

static void *quire_profiler_start(const quire_profiler_api *p, void *profiler) {
	profiler_args a = {sizeof(a), profiler};
	return p->start(&a);
}

static void *quire_profiler_stop(const quire_profiler_api *p, void *profiler) {
	profiler_args a = {sizeof(a), profiler};
	return p->stop(&a);
}

static void *quire_profiler_destroy(const quire_profiler_api *p, void *profiler) {
	profiler_args a = {sizeof(a), profiler};
	return p->destroy(&a);
}

// quire_profiler_collect is called without a buffer: then the plugin gives one of its own, or says how large it is to
// be.
static void *quire_profiler_collect(const quire_profiler_api *p, void *profiler, uint8_t **buffer, size_t *size) {
	profiler_collect_args a = {sizeof(a), profiler, *buffer, *size};
	void *error = p->collect(&a);
	*buffer = a.buffer;
	*size = a.buffer_size;
	return error;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/gomlx/go-xla/pjrt"
)

// ErrNoProfiler reports that a plugin has no profiler.
var ErrNoProfiler = errors.New("the plugin has no profiler (PJRT_Profiler_Extension)")

// Profiler is a session of a plugin's profiler.
type Profiler struct {
	plugin  *pjrt.Plugin // has the functions
	api     *C.quire_profiler_api
	session unsafe.Pointer
}

// profilerOf finds the profiler of a plugin.
func profilerOf(plugin *pjrt.Plugin) (*C.quire_profiler_api, error) {
	api, err := pointer(plugin, "api")
	if err != nil {
		return nil, err
	}
	p := C.quire_profiler(api)
	if p == nil {
		return nil, ErrNoProfiler
	}
	return p, nil
}

// HasProfiler reports whether a plugin has a profiler: nil, or [ErrNoProfiler].
func HasProfiler(plugin *pjrt.Plugin) error {
	_, err := profilerOf(plugin)
	return err
}

// StartProfiler begins to profile what a plugin's devices do. options is a ProfileOptions message, or empty.
func StartProfiler(plugin *pjrt.Plugin, options []byte) (*Profiler, error) {
	api, err := profilerOf(plugin)
	if err != nil {
		return nil, err
	}
	p := &Profiler{plugin: plugin, api: api}
	text := C.CBytes(options)
	defer C.free(text)
	e := C.quire_profiler_create(api, (*C.char)(text), C.size_t(len(options)), &p.session)
	if err := p.failure("PLUGIN_Profiler_Create", e); err != nil {
		return nil, err
	}
	if err := p.failure("PLUGIN_Profiler_Start", C.quire_profiler_start(api, p.session)); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// Stop ends the session and returns the profile: an XSpace message.
func (p *Profiler) Stop() (profile []byte, err error) {
	defer func() { err = errors.Join(err, p.close()) }()
	defer runtime.KeepAlive(p.plugin)
	if err := p.failure("PLUGIN_Profiler_Stop", C.quire_profiler_stop(p.api, p.session)); err != nil {
		return nil, err
	}
	const call = "PLUGIN_Profiler_CollectData"
	var buffer *C.uint8_t
	var size C.size_t
	if err := p.failure(call, C.quire_profiler_collect(p.api, p.session, &buffer, &size)); err != nil {
		return nil, err
	}
	if buffer == nil && size > 0 { // it is to be given one
		buffer = (*C.uint8_t)(C.calloc(1, size))
		defer C.free(unsafe.Pointer(buffer))
		given := buffer
		if err := p.failure(call, C.quire_profiler_collect(p.api, p.session, &given, &size)); err != nil {
			return nil, err
		}
	}
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(buffer)), int(size))...), nil
}

func (p *Profiler) close() error {
	session := p.session
	p.session = nil
	return p.failure("PLUGIN_Profiler_Destroy", C.quire_profiler_destroy(p.api, session))
}

// failure is like failure of other calls, but the profiler's errors have a type of their own.
func (p *Profiler) failure(call string, e unsafe.Pointer) error {
	if e == nil {
		return nil
	}
	var size C.size_t
	message := C.quire_profiler_message(p.api, e, &size)
	defer C.free(unsafe.Pointer(message))
	return fmt.Errorf("%s: %s", call, C.GoStringN(message, C.int(size)))
}
