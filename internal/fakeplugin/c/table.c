// ---- The table. Each call goes through the script, then to the real plugin or to what is above.

#define CALLS(X) \
	X(Plugin_Initialize, plugin_initialize) X(Plugin_Attributes, plugin_attributes) X(Event_Destroy, event_destroy) \
	X(Event_Await, event_await) X(Client_Create, client_create) X(Client_Destroy, client_destroy) \
	X(Client_PlatformName, client_platform) X(Client_PlatformVersion, client_version) \
	X(Client_ProcessIndex, client_process) X(Client_Devices, client_devices) \
	X(Client_AddressableDevices, client_addressable) X(Client_DefaultDeviceAssignment, client_assignment) \
	X(Device_GetDescription, device_description) X(Device_IsAddressable, device_addressable) \
	X(Device_LocalHardwareId, device_local) X(Device_MemoryStats, device_memory) \
	X(DeviceDescription_Id, description_id) X(DeviceDescription_ProcessIndex, description_process) \
	X(DeviceDescription_Kind, description_kind) X(DeviceDescription_DebugString, description_debug) \
	X(DeviceDescription_ToString, description_string) X(DeviceDescription_Attributes, description_attributes) \
	X(Client_Compile, client_compile) X(LoadedExecutable_GetExecutable, loaded_executable) \
	X(LoadedExecutable_Destroy, loaded_destroy) X(Executable_Destroy, executable_destroy) \
	X(Executable_NumOutputs, executable_outputs) X(Executable_Name, executable_name) \
	X(Executable_GetCompiledMemoryStats, executable_memory) X(LoadedExecutable_Execute, execute) \
	X(Client_BufferFromHostBuffer, from_host) X(Buffer_ToHostBuffer, to_host) X(Buffer_Destroy, buffer_destroy) \
	X(Buffer_Device, buffer_device) X(Buffer_ElementType, buffer_type) X(Buffer_Dimensions, buffer_dimensions) \
	X(TopologyDescription_Create, topology_create) X(TopologyDescription_Destroy, topology_destroy) \
	X(TopologyDescription_PlatformName, topology_platform) X(TopologyDescription_PlatformVersion, topology_version) \
	X(TopologyDescription_GetDeviceDescriptions, topology_devices) \
	X(TopologyDescription_Attributes, topology_attributes) X(Compile, compile)

#define CALL(name, own) \
	static PJRT_Error *call_##name(PJRT_##name##_Args *a) { \
		PJRT_Error *e = obey("PJRT_" #name); \
		return e ? e : real ? real->PJRT_##name(a) : own(a); \
	}
CALLS(CALL)

// script_text is the file PLUGIN.script, or what the environment has.
static char *script_text(void) {
	Dl_info self;
	char path[1024], *text = calloc(1, 1 << 16);
	FILE *f = NULL;
	if (dladdr((void *)script_text, &self)) {
		snprintf(path, sizeof(path), "%s.script", self.dli_fname);
		f = fopen(path, "r");
	}
	const char *given = getenv("QUIRE_FAKE_PLUGIN");
	if (f) {
		if (!fread(text, 1, (1 << 16) - 1, f)) *text = 0;
		fclose(f);
	} else if (given) snprintf(text, 1 << 16, "%s", given);
	return text;
}

static PJRT_NamedValue attribute(const char *name, PJRT_NamedValue_Type type, size_t size) {
	return (PJRT_NamedValue){.struct_size = PJRT_NamedValue_STRUCT_SIZE,
		.name = name, .name_size = strlen(name), .type = type, .value_size = size};
}

static const PJRT_Api *read_script(void) {
	char *text = script_text(), *rest = text;
	for (char *entry; (entry = strsep(&rest, ";"));) read_entry(entry);
	free(text);
	if (script.devices > MAX_DEVICES || script.processes < 1) bad("devices");
	for (int i = 0; i < script.devices; i++) {
		struct PJRT_DeviceDescription *d = &devices[i].description;
		d->id = i;
		d->process = i * script.processes / script.devices;
		snprintf(d->text, sizeof(d->text), "%s %d (process %d)", script.kind, i, d->process);
		d->coords[0] = i;
		d->attributes[0] = attribute("coords", PJRT_NamedValue_kInt64List, 3);
		d->attributes[0].int64_array_value = d->coords;
		d->attributes[1] = attribute("device_memory_bytes_limit", PJRT_NamedValue_kInt64, 1);
		d->attributes[1].int64_value = script.memory;
		all[i] = &devices[i];
		descriptions[i] = d;
		if (d->process != script.process) continue;
		devices[i].local = num_here;
		here[num_here++] = &devices[i];
	}
	PJRT_Api *api = &table.api;
	if (*script.real) {
		void *handle = dlopen(script.real, RTLD_NOW | RTLD_LOCAL);
		const PJRT_Api *(*get)(void) = handle ? (const PJRT_Api *(*)(void))dlsym(handle, "GetPjrtApi") : NULL;
		if (!get || !(real = get()) || real->struct_size > sizeof(table)) bad(script.real);
		memcpy(api, real, real->struct_size);
		if (script.memory) real = limit(real);
	} else {
		api->struct_size = sizeof(*api);
		api->pjrt_api_version = (PJRT_Api_Version){.struct_size = PJRT_Api_Version_STRUCT_SIZE,
			.major_version = script.major, .minor_version = script.minor};
	}
	api->PJRT_Error_Destroy = error_destroy;
	api->PJRT_Error_Message = error_message;
	api->PJRT_Error_GetCode = error_code;
#define SET(name, own) api->PJRT_##name = call_##name;
	CALLS(SET)
	if (script.functions)
		api->struct_size = offsetof(PJRT_Api, PJRT_Error_Destroy) + (size_t)script.functions * sizeof(void *);
	note_environment();
	return api;
}

__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void) {
	static const PJRT_Api *api;
	pthread_mutex_lock(&lock);
	if (!api) api = read_script();
	pthread_mutex_unlock(&lock);
	return api;
}
