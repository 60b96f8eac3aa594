// Package topologies describes devices that are not there to plugins that compile for them.
package topologies

import "google.golang.org/protobuf/encoding/protowire"

// Names describes which names topologies have.
func Names() string {
	return "give a TPU chip and the chips along each axis, such as v5e:1x1, v5e:2x4, v6e:4x4, v5p:2x2x1, v4:2x2x1 or " +
		"tpu7x:2x2x1, or a GPU and how many, such as h200:1; GPUs are " + gpuNames()
}

// WithoutTPU is the environment in which libtpu compiles on a machine without a TPU. Without the first variable libtpu
// waits minutes for a server of Google Cloud. The second lets several processes compile at the same time. The others
// keep libtpu quiet and from asking for what it would need to run programs. A variable that is already set is kept.
var WithoutTPU = [][2]string{
	{"TPU_SKIP_MDS_QUERY", "1"},
	{"ALLOW_MULTIPLE_LIBTPU_LOAD", "1"},
	{"TPU_ACCELERATOR_TYPE", "v5litepod-4"},
	{"TPU_WORKER_HOSTNAMES", "localhost"},
	{"TPU_WORKER_ID", "0"},
	{"TPU_LOG_DIR", "disabled"},
}

// CompileOptions returns a serialized xla.CompileOptionsProto for a program that runs on all given devices together. If
// none is given, the program runs on the one device that the caller of Execute names. The field numbers are from
// xla/pjrt/proto/compile_options.proto and xla/xla_data.proto.
func CompileOptions(devices []int) []byte {
	number := func(to []byte, field protowire.Number, value int) []byte {
		return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), uint64(value))
	}
	message := func(to []byte, field protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), value)
	}
	partitions := max(1, len(devices))
	build := number(nil, 1, -1)          // device_ordinal
	build = number(build, 4, 1)          // num_replicas
	build = number(build, 5, partitions) // num_partitions
	if len(devices) == 0 {
		return number(message(nil, 3, build), 4, 1) // executable_build_options, compile_portable_executable
	}
	if partitions > 1 {
		build = number(build, 6, 1) // use_spmd_partitioning
	}
	assignment := number(number(nil, 1, 1), 2, partitions) // replica_count, computation_count
	for _, d := range devices {
		replicas := protowire.AppendVarint(nil, uint64(d))
		assignment = message(assignment, 3, message(nil, 1, replicas)) // computation_devices, replica_device_ids
	}
	build = message(build, 9, assignment) // device_assignment
	if partitions > 1 {
		build = number(build, 19, 1) // use_shardy_partitioner
	}
	return message(nil, 3, build)
}
