package pjrtc

// #include <stdlib.h>
// #include "topology.h"
//
// static const char *quire_named_string(const quire_named *v) { return v->as.string_value; }
// static int64_t quire_named_int(const quire_named *v) { return v->as.int64_value; }
// static const int64_t *quire_named_ints(const quire_named *v) { return v->as.int64_array_value; }
// static float quire_named_float(const quire_named *v) { return v->as.float_value; }
// static _Bool quire_named_bool(const quire_named *v) { return v->as.bool_value; }
// static void quire_set_string(quire_named *v, const char *x, size_t n) { v->type = QUIRE_STRING; v->as.string_value =
// x; v->value_size = n; } static void quire_set_int(quire_named *v, int64_t x) { v->type = QUIRE_INT64;
// v->as.int64_value = x; v->value_size = 1; } static void quire_set_ints(quire_named *v, const int64_t *x, size_t n) {
// v->type = QUIRE_INT64_LIST; v->as.int64_array_value = x; v->value_size = n; } static void quire_set_bool(quire_named
// *v, _Bool x) { v->type = QUIRE_BOOL; v->as.bool_value = x; v->value_size = 1; }
import "C"

import (
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/gomlx/go-xla/pjrt"
)

// Error is an error that a plugin returned.
type Error struct {
	Call    string // name of the function of the C API
	Code    int    // one of the codes of absl::StatusCode, which PJRT uses
	Message string
}

// Codes of an [Error].
const (
	CodeInvalidArgument   = 3
	CodeNotFound          = 5
	CodeResourceExhausted = 8
	CodeUnimplemented     = 12
)

// Error implements error.
func (e *Error) Error() string { return e.Call + ": " + e.Message }

// Memory is what a compiled program needs of a device's memory, in bytes; -1 is what the plugin does not say.
type Memory struct {
	Code, Arguments, Outputs, Temporary int64
	// Aliased is the part of Outputs that takes the place of donated arguments.
	Aliased int64
	// Peak is the most that is live at once, without Code. TotalAllocation is all that the device must allocate for
	// arguments, outputs and temporaries, padding and fragmentation counted; TPU fills it in.
	Peak, TotalAllocation int64
}

// Device is a topology's description of one of its devices.
type Device struct {
	ID, Process int
	Kind, Debug string
	Attributes  map[string]any // string, int64, []int64, float32 or bool
}

// Topology is a set of devices that programs can be compiled for, whether or not they are there.
type Topology struct {
	Platform, Version string
	Attributes        map[string]any
	Devices           []Device

	mu     sync.Mutex
	api    unsafe.Pointer
	handle unsafe.Pointer
	plugin *pjrt.Plugin
}

// NewTopology asks the plugin for a topology by its name; each plugin defines its names. Values of options are string,
// bool, int64 or []int64.
func NewTopology(plugin *pjrt.Plugin, name string, options map[string]any) (*Topology, error) {
	api, err := pointer(plugin, "api")
	if err != nil {
		return nil, err
	}
	if missing := C.quire_topology_missing(api); missing != nil {
		return nil, fmt.Errorf("pjrtc: the plugin can't compile without a device: it has no %s", C.GoString(missing))
	}
	var in arena
	defer in.free()
	named, err := in.named(options)
	if err != nil {
		return nil, err
	}
	t := &Topology{api: api, plugin: plugin}
	if err := t.failure("PJRT_TopologyDescription_Create",
		C.quire_topology_create(api, in.string(name), C.size_t(len(name)), named, C.size_t(len(options)),
			&t.handle)); err != nil {
		return nil, err
	}
	if err := t.describe(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Topology) describe() error {
	var name, version *C.char
	var nameSize, versionSize, num C.size_t
	if err := t.failure("PJRT_TopologyDescription_PlatformName",
		C.quire_topology_platform(t.api, t.handle, &name, &nameSize, &version, &versionSize)); err != nil {
		return err
	}
	t.Platform, t.Version = C.GoStringN(name, C.int(nameSize)), C.GoStringN(version, C.int(versionSize))
	var attributes *C.quire_named
	if err := t.failure("PJRT_TopologyDescription_Attributes",
		C.quire_topology_attributes(t.api, t.handle, &attributes, &num)); err != nil {
		return err
	}
	t.Attributes = goValues(attributes, num)
	var devices *unsafe.Pointer
	if err := t.failure("PJRT_TopologyDescription_GetDeviceDescriptions",
		C.quire_topology_devices(t.api, t.handle, &devices, &num)); err != nil {
		return err
	}
	for _, d := range unsafe.Slice(devices, int(num)) {
		out, err := describeDevice(t.api, d)
		if err != nil {
			return err
		}
		t.Devices = append(t.Devices, out)
	}
	return nil
}

// Close frees the topology. Programs compiled for it stay as they are.
func (t *Topology) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handle != nil {
		C.quire_topology_destroy(t.api, t.handle)
		t.handle = nil
	}
}

// Compile compiles StableHLO, as text or bytecode, for the topology. options is a serialized xla.CompileOptionsProto.
func (t *Topology) Compile(program, options []byte) (*Compiled, error) {
	t.mu.Lock()
	handle := t.handle
	t.mu.Unlock()
	if handle == nil {
		return nil, fmt.Errorf("pjrtc: the topology was closed")
	}
	code := C.CBytes(program)
	defer C.free(code)
	opts := C.CBytes(options)
	defer C.free(opts)
	c := &Compiled{api: t.api, plugin: t.plugin}
	err := t.failure("PJRT_Compile",
		C.quire_topology_compile(t.api, handle, (*C.char)(code), C.size_t(len(program)),
			(*C.char)(opts), C.size_t(len(options)), &c.handle))
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(c, (*Compiled).Close)
	return c, nil
}

func (t *Topology) failure(call string, e unsafe.Pointer) error { return typedFailure(t.api, call, e) }

// typedFailure turns the plugin's error into an [*Error], nil into nil.
func typedFailure(api unsafe.Pointer, call string, e unsafe.Pointer) error {
	if e == nil {
		return nil
	}
	var code C.int
	var size C.size_t
	text := C.quire_error_text(api, e, &code, &size)
	defer C.free(unsafe.Pointer(text))
	return &Error{Call: call, Code: int(code), Message: C.GoStringN(text, C.int(size))}
}

// Compiled is a program compiled for a topology; it is on no device.
type Compiled struct {
	mu     sync.Mutex
	api    unsafe.Pointer
	handle unsafe.Pointer
	plugin *pjrt.Plugin
}

// Close frees the program. A second call does nothing.
func (c *Compiled) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle != nil {
		C.quire_executable_destroy(c.api, c.handle)
		c.handle = nil
	}
}

// with calls do with the program's handle, which stays valid until do returns.
func (c *Compiled) with(do func(handle unsafe.Pointer) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == nil {
		return fmt.Errorf("pjrtc: the program was closed")
	}
	return do(c.handle)
}

// Memory returns what the program needs.
func (c *Compiled) Memory() (m Memory, err error) {
	err = c.with(func(handle unsafe.Pointer) error { m, err = memory(c.api, handle); return err })
	return m, err
}

// Cost returns the compiler's own account of the program: flops, "bytes accessed" and others, as named by XLA. The body
// of a loop counts once.
func (c *Compiled) Cost() (properties map[string]float64, err error) {
	err = c.with(func(handle unsafe.Pointer) error { properties, err = cost(c.api, handle); return err })
	return properties, err
}

// Serialize returns the bytes from which [Load] makes the program on a device.
func (c *Compiled) Serialize() (bytes []byte, err error) {
	err = c.with(func(handle unsafe.Pointer) error { bytes, err = serialize(c.api, handle); return err })
	return bytes, err
}

// OptimizedProgram is [OptimizedProgram] of the compiled program.
func (c *Compiled) OptimizedProgram() (code []byte, format string, err error) {
	err = c.with(func(handle unsafe.Pointer) error { code, format, err = optimized(c.api, handle); return err })
	return code, format, err
}

// MemoryOf returns what a loaded program needs.
func MemoryOf(e *pjrt.LoadedExecutable) (Memory, error) {
	api, handle, err := executableOf(e)
	if err != nil {
		return Memory{}, err
	}
	defer runtime.KeepAlive(e)
	return memory(api, handle)
}

// CostOf returns the compiler's account of a loaded program, see [Compiled.Cost]. XLA:CPU has none, which is an
// [*Error] with CodeUnimplemented.
func CostOf(e *pjrt.LoadedExecutable) (map[string]float64, error) {
	api, handle, err := executableOf(e)
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(e)
	return cost(api, handle)
}

func executableOf(e *pjrt.LoadedExecutable) (api, handle unsafe.Pointer, err error) {
	if api, err = pointer(e, "plugin", "api"); err != nil {
		return nil, nil, err
	}
	handle, err = pointer(e, "executable", "wrapper", "c")
	return api, handle, err
}

func memory(api, handle unsafe.Pointer) (Memory, error) {
	if missing := C.quire_memory_missing(api); missing != nil {
		return Memory{}, fmt.Errorf("pjrtc: the plugin has no %s", C.GoString(missing))
	}
	var m C.quire_memory
	if err := typedFailure(api, "PJRT_Executable_GetCompiledMemoryStats",
		C.quire_executable_memory(api, handle, &m)); err != nil {
		return Memory{}, err
	}
	return Memory{
		Code: int64(m.code), Arguments: int64(m.arguments), Outputs: int64(m.outputs),
		Aliased: int64(m.aliased), Temporary: int64(m.temporary),
		Peak: int64(m.peak), TotalAllocation: int64(m.total_allocation),
	}, nil
}

func cost(api, handle unsafe.Pointer) (map[string]float64, error) {
	if missing := C.quire_cost_missing(api); missing != nil {
		return nil, fmt.Errorf("pjrtc: the plugin has no %s", C.GoString(missing))
	}
	var properties *C.quire_named
	var num C.size_t
	if err := typedFailure(api, "PJRT_Executable_GetCostAnalysis",
		C.quire_executable_cost(api, handle, &properties, &num)); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for name, v := range goValues(properties, num) {
		switch v := v.(type) {
		case float32:
			out[name] = float64(v)
		case int64:
			out[name] = float64(v)
		}
	}
	return out, nil
}

// goValues copies named values of the plugin's.
func goValues(values *C.quire_named, num C.size_t) map[string]any {
	out := make(map[string]any, int(num))
	for i := range unsafe.Slice(values, int(num)) {
		v := &unsafe.Slice(values, int(num))[i]
		name := C.GoStringN(v.name, C.int(v.name_size))
		switch v._type {
		case C.QUIRE_STRING:
			out[name] = C.GoStringN(C.quire_named_string(v), C.int(v.value_size))
		case C.QUIRE_INT64:
			out[name] = int64(C.quire_named_int(v))
		case C.QUIRE_INT64_LIST:
			out[name] = slices.Clone(unsafe.Slice((*int64)(C.quire_named_ints(v)), int(v.value_size)))
		case C.QUIRE_FLOAT:
			out[name] = float32(C.quire_named_float(v))
		case C.QUIRE_BOOL:
			out[name] = bool(C.quire_named_bool(v))
		}
	}
	return out
}

// arena is memory of C that is freed together.
type arena []unsafe.Pointer

func (a *arena) free() {
	for _, p := range *a {
		C.free(p)
	}
}

func (a *arena) string(s string) *C.char {
	p := C.CString(s)
	*a = append(*a, unsafe.Pointer(p))
	return p
}

func (a *arena) named(options map[string]any) (*C.quire_named, error) {
	if len(options) == 0 {
		return nil, nil
	}
	list := (*C.quire_named)(C.calloc(C.size_t(len(options)), C.sizeof_quire_named))
	*a = append(*a, unsafe.Pointer(list))
	for i, name := range slices.Sorted(maps.Keys(options)) {
		v := &unsafe.Slice(list, len(options))[i]
		v.struct_size, v.name, v.name_size = C.sizeof_quire_named, a.string(name), C.size_t(len(name))
		switch x := options[name].(type) {
		case string:
			C.quire_set_string(v, a.string(x), C.size_t(len(x)))
		case bool:
			C.quire_set_bool(v, C._Bool(x))
		case int64:
			C.quire_set_int(v, C.int64_t(x))
		case []int64:
			p := C.CBytes(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 8*len(x)))
			*a = append(*a, p)
			C.quire_set_ints(v, (*C.int64_t)(p), C.size_t(len(x)))
		default:
			return nil, fmt.Errorf("pjrtc: option %s is a %s: use a string, bool, int64 or []int64",
				name, reflect.TypeOf(x))
		}
	}
	return list, nil
}

// DescribeDevice returns the plugin's description of a device that exists.
func DescribeDevice(d *pjrt.Device) (Device, error) {
	api, err := pointer(d, "plugin", "api")
	if err != nil {
		return Device{}, err
	}
	if missing := C.quire_topology_missing(api); missing != nil {
		return Device{}, fmt.Errorf("pjrtc: the plugin does not describe devices: it has no %s", C.GoString(missing))
	}
	description, err := d.GetDescription()
	if err != nil {
		return Device{}, err
	}
	handle, err := pointer(description, "deviceDescription")
	if err != nil {
		return Device{}, err
	}
	defer runtime.KeepAlive(d)
	return describeDevice(api, handle)
}

func describeDevice(api, handle unsafe.Pointer) (Device, error) {
	var out C.quire_device
	if err := typedFailure(api, "PJRT_DeviceDescription", C.quire_topology_device(api, handle, &out)); err != nil {
		return Device{}, err
	}
	return Device{
		ID: int(out.id), Process: int(out.process), Kind: C.GoStringN(out.kind, C.int(out.kind_size)),
		Debug:      C.GoStringN(out.debug, C.int(out.debug_size)),
		Attributes: goValues(out.attributes, out.num_attributes),
	}, nil
}
