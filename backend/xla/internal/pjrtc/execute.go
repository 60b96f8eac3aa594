package pjrtc

/*
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef void *(*execute_call)(void *args);

// The functions of the plugin's table that an execution needs.
typedef struct { void *execute, *to_host, *await, *destroy_event; } execute_calls;

typedef struct { size_t struct_size; void *extension_start; void *event; } event_args;

// The whole struct of the header that comes with go-xla: a plugin refuses a shorter one.
typedef struct {
	size_t struct_size;
	void *extension_start;
	void *send_callbacks, *recv_callbacks;
	size_t num_send_ops, num_recv_ops;
	int launch_id;
	const int64_t *non_donatable_input_indices;
	size_t num_non_donatable_input_indices;
	void *context;
	const char *call_location;
	size_t num_tasks;
	int *task_ids;
	int64_t *incarnation_ids;
	void *multi_slice_config;
} execute_options;

typedef struct {
	size_t struct_size;
	void *extension_start;
	void *executable;
	execute_options *options;
	void **const *argument_lists;
	size_t num_devices, num_args;
	void **const *output_lists;
	void **device_complete_events;
	void *execute_device;
} execute_args;

typedef struct {
	size_t struct_size;
	void *extension_start;
	struct {
		size_t struct_size;
		void *extension_start;
		const int64_t *minor_to_major;
		size_t minor_to_major_size;
		const int64_t *tile_dims;
		const size_t *tile_dim_sizes;
		size_t num_tiles;
	} tiled; // the larger member of a union
	int type; // 0: tiled
} memory_layout;

typedef struct {
	size_t struct_size;
	void *extension_start;
	void *src;
	memory_layout *host_layout;
	void *dst;
	size_t dst_size;
	void *event;
} to_host_args;

// quire_wait waits for an event and frees it. It returns the event's error.
static void *quire_wait(const execute_calls *calls, void *event) {
	event_args a = {sizeof(a), NULL, event};
	void *error = ((execute_call)calls->await)(&a);
	event_args d = {sizeof(d), NULL, event};
	((execute_call)calls->destroy_event)(&d);
	return error;
}

// quire_execute runs an executable on num_devices devices and waits for all of them. inputs and outputs have the
// buffers of the first device, then the buffers of the second, and so on. It returns the first error, or sets
// no_memory.
static void *quire_execute(const execute_calls *calls, void *executable, void **inputs, size_t num_inputs,
                           void **outputs, size_t num_outputs, size_t num_devices, const int64_t *kept, size_t num_kept,
                           void *device, int *no_memory) {
	void ***lists = calloc(3 * num_devices, sizeof(void *));
	if (!lists) {
		*no_memory = 1;
		return NULL;
	}
	void **events = (void **)(lists + 2 * num_devices);
	for (size_t d = 0; d < num_devices; d++) {
		lists[d] = inputs + d * num_inputs;
		lists[num_devices + d] = outputs + d * num_outputs;
	}
	execute_options options = {.struct_size = sizeof(options), .non_donatable_input_indices = kept,
		.num_non_donatable_input_indices = num_kept};
	execute_args a = {sizeof(a), NULL, executable, &options, lists, num_devices, num_inputs, lists + num_devices,
		events, device};
	void *error = ((execute_call)calls->execute)(&a);
	if (!error) {
		for (size_t d = 0; d < num_devices; d++) {
			void *e = quire_wait(calls, events[d]);
			if (!error) error = e; // the others are leaked: a device that fails does so once
		}
	}
	free(lists);
	return error;
}

// quire_to_host starts to copy a buffer to the host, row by row whatever its layout on the device.
static void *quire_to_host(const execute_calls *calls, void *buffer, void *dst, size_t size, int rank, void **event) {
	int64_t minor_to_major[rank > 0 ? rank : 1];
	for (int i = 0; i < rank; i++) minor_to_major[i] = rank - i - 1;
	memory_layout layout = {.struct_size = sizeof(layout)};
	layout.tiled.struct_size = sizeof(layout.tiled);
	layout.tiled.minor_to_major = minor_to_major;
	layout.tiled.minor_to_major_size = (size_t)rank;
	to_host_args a = {sizeof(a), NULL, buffer, &layout, dst, size, NULL};
	void *error = ((execute_call)calls->to_host)(&a);
	*event = a.event;
	return error;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"github.com/gomlx/go-xla/pjrt"
)

// bufferFields are where go-xla keeps the pointer of a buffer: a struct that the buffer points to, and the place in it.
// They are looked up once, since a call may have thousands of buffers.
var bufferFields = sync.OnceValues(func() (at [2]uintptr, err error) {
	t := reflect.TypeFor[pjrt.Buffer]()
	for i, name := range []string{"wrapper", "c"} {
		f, ok := t.FieldByName(name)
		if !ok || f.Type.Kind() != reflect.Pointer {
			return at, fmt.Errorf("pjrtc: %v has no pointer %s: Quire is built for go-xla %s", t, name, pinned)
		}
		at[i], t = f.Offset, f.Type.Elem()
	}
	return at, nil
})

// bufferPointers appends the PJRT_Buffer of each buffer to the list.
func bufferPointers(to []unsafe.Pointer, buffers []*pjrt.Buffer) ([]unsafe.Pointer, error) {
	at, err := bufferFields()
	if err != nil {
		return nil, err
	}
	for i, b := range buffers {
		if b.Check() != nil {
			return nil, fmt.Errorf("pjrtc: buffer %d was freed", i)
		}
		wrapper := *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(b), at[0]))
		to = append(to, *(*unsafe.Pointer)(unsafe.Add(wrapper, at[1])))
	}
	return to, nil
}

// newBuffer is go-xla's own wrapper of a buffer; its last argument is a *C.PJRT_Buffer.
//
//go:linkname newBuffer github.com/gomlx/go-xla/pjrt.newBuffer
func newBuffer(*pjrt.Client, unsafe.Pointer) *pjrt.Buffer

// executeCalls returns the functions that executions need, and the plugin's table.
func executeCalls(client *pjrt.Client) (*C.execute_calls, unsafe.Pointer, error) {
	table, f, err := executionFunctions(client)
	return &C.execute_calls{execute: f[0], to_host: f[1], await: f[2], destroy_event: f[3]}, table, err
}

// Execute runs an executable on so many devices of this process and waits for them. inputs has the buffers of the first
// device, then the buffers of the second, and so on, and so has the result. donate is of the inputs of one device; nil
// donates none. Donated buffers are freed if the call succeeds. device is nil unless the executable is portable.
//
// go-xla's own Execute takes time that grows with the square of the number of inputs, and counts the devices of all
// processes.
func Execute(e *pjrt.LoadedExecutable, client *pjrt.Client, inputs []*pjrt.Buffer, donate []bool, devices int,
	device *pjrt.Device) ([]*pjrt.Buffer, error) {
	calls, table, err := executeCalls(client)
	if err != nil {
		return nil, err
	}
	executable, err := pointer(e, "wrapper", "c")
	if err != nil {
		return nil, err
	}
	var on unsafe.Pointer
	if device != nil {
		if on, err = pointer(device, "cDevice"); err != nil {
			return nil, err
		}
	}
	numInputs, numOutputs := len(inputs)/devices, e.NumOutputs*devices
	in, err := bufferPointers(make([]unsafe.Pointer, 0, len(inputs)+1), inputs)
	if err != nil {
		return nil, err
	}
	out := make([]unsafe.Pointer, numOutputs, numOutputs+1) // SliceData of an empty slice is no pointer for C
	kept := make([]C.int64_t, 0, numInputs+1)
	for i := range numInputs {
		if donate == nil || !donate[i] {
			kept = append(kept, C.int64_t(i))
		}
	}
	var noMemory C.int
	failed := C.quire_execute(calls, executable, unsafe.SliceData(in), C.size_t(numInputs), unsafe.SliceData(out),
		C.size_t(e.NumOutputs), C.size_t(devices), unsafe.SliceData(kept), C.size_t(len(kept)), on, &noMemory)
	runtime.KeepAlive(e)
	runtime.KeepAlive(inputs)
	if noMemory != 0 {
		return nil, errors.New("pjrtc: no memory for the arguments of a call")
	}
	err = typedFailure(table, "PJRT_LoadedExecutable_Execute", failed)
	outputs := make([]*pjrt.Buffer, 0, numOutputs)
	for _, b := range out {
		if b != nil { // all are nil if the execution did not start
			outputs = append(outputs, newBuffer(client, b))
		}
	}
	if err != nil {
		for _, b := range outputs {
			_ = b.Destroy()
		}
		return nil, err
	}
	for i, b := range inputs {
		if donate != nil && donate[i%numInputs] {
			if err := b.Destroy(); err != nil {
				return nil, fmt.Errorf("pjrtc: freeing donated input %d: %w", i, err)
			}
		}
	}
	return outputs, nil
}

// ToHost copies buffers of so many axes to the host, row by row. It starts all copies before it waits for the first.
func ToHost(client *pjrt.Client, buffers []*pjrt.Buffer, ranks []int, to [][]byte) error {
	calls, table, err := executeCalls(client)
	if err != nil {
		return err
	}
	from, err := bufferPointers(nil, buffers)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(buffers)
	var pinned runtime.Pinner // the plugin writes after the call has returned
	defer pinned.Unpin()
	var events []unsafe.Pointer
	for i, b := range from {
		start := unsafe.Pointer(unsafe.SliceData(to[i]))
		pinned.Pin(start)
		var event unsafe.Pointer
		failed := C.quire_to_host(calls, b, start, C.size_t(len(to[i])), C.int(ranks[i]), &event)
		if err = typedFailure(table, "PJRT_Buffer_ToHostBuffer", failed); err != nil {
			break
		}
		events = append(events, event)
	}
	for _, event := range events { // also after an error: memory must not be written when it is no longer pinned
		err = errors.Join(err, typedFailure(table, "PJRT_Buffer_ToHostBuffer", C.quire_wait(calls, event)))
	}
	return err
}
