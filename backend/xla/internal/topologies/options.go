package topologies

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// An Option overrides an option of the compiler for one compilation. The value is in the form of a flag's.
type Option struct{ Name, Value string }

// scattersOnCore keeps the tables' scatters of a few integers on the core: handing each to a SparseCore and waiting for
// it has no estimate.
var scattersOnCore = Option{"xla_tpu_enable_offloading_scatter_to_sparsecore", "false"}

// largeBlocks lets an operation have half of the 128 MiB of VMEM, so that products take larger blocks.
var largeBlocks = Option{"xla_tpu_scoped_vmem_limit_kib", "65536"}

// tpuOptions are the options of all programs for a kind of TPU: docs/tpu.md has what was compared.
var tpuOptions = map[string][]Option{"TPU v5": {scattersOnCore}, "TPU v6 lite": {scattersOnCore, largeBlocks}}

// Options returns the compiler's options for programs of a platform's kind of device. libtpuFlags are the user's own
// flags for libtpu, in LIBTPU_INIT_ARGS: an option that they name is left to them.
func Options(platform, kind, libtpuFlags string) []Option {
	if platform != "tpu" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(tpuOptions[kind]), func(o Option) bool {
		return strings.Contains(libtpuFlags, o.Name)
	})
}

// Refused returns the option that the compiler's error is about; nil if it is about something else.
func Refused(options []Option, failure string) *Option {
	for _, o := range options {
		if strings.Contains(failure, o.Name) {
			return &o
		}
	}
	return nil
}

// Overrides returns options as the field env_option_overrides of a serialized xla.CompileOptionsProto, to be appended
// to the result of [CompileOptions].
func Overrides(options []Option) (message []byte) {
	field := func(to []byte, number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), value)
	}
	for _, o := range options {
		value := field(nil, 1, []byte(o.Value)) // string_field: the compiler reads it as the option's type
		message = field(message, 7, field(field(nil, 1, []byte(o.Name)), 2, value))
	}
	return message
}
