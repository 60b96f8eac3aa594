// ---- A device of limited memory: real= with memory=. It refuses arrays and programs that it has no room for, as an
// accelerator does, and counts what the real plugin holds.

enum { MAX_HELD = 1 << 14 };
// What takes memory: arrays, and loaded programs with their code. lock protects it.
static struct { const void *key; int64_t bytes; } held[MAX_HELD];
static int64_t in_use, peak;
static const PJRT_Api *bare; // the real plugin without this

static void hold(const void *key, int64_t bytes) {
	pthread_mutex_lock(&lock);
	int i = 0;
	while (i < MAX_HELD && held[i].key && held[i].key != key) i++;
	if (i == MAX_HELD) abort();
	in_use += bytes - (held[i].key ? held[i].bytes : 0);
	held[i].key = key;
	held[i].bytes = bytes;
	if (in_use > peak) peak = in_use;
	pthread_mutex_unlock(&lock);
}

static void let_go(const void *key) {
	pthread_mutex_lock(&lock);
	for (int i = 0; i < MAX_HELD; i++)
		if (key && held[i].key == key) {
			in_use -= held[i].bytes;
			held[i].key = NULL;
			held[i].bytes = 0;
		}
	pthread_mutex_unlock(&lock);
}

static void drop(PJRT_Error *e) {
	PJRT_Error_Destroy_Args a = {.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE, .error = e};
	bare->PJRT_Error_Destroy(&a);
}

// no_room is the error of what needs so many bytes more; NULL if they are there.
static PJRT_Error *no_room(const char *what, int64_t bytes) {
	pthread_mutex_lock(&lock);
	int64_t used = in_use;
	if (used + bytes > peak) peak = used + bytes;
	pthread_mutex_unlock(&lock);
	if (used + bytes <= script.memory) return NULL;
	char message[256];
	snprintf(message, sizeof(message), "Out of memory: %s needs %lld bytes, and %lld of %lld are in use", what,
		(long long)bytes, (long long)used, (long long)script.memory);
	note(message);
	return fail(PJRT_Error_Code_RESOURCE_EXHAUSTED, message);
}

static void hold_buffer(PJRT_Buffer *b) {
	PJRT_Buffer_OnDeviceSizeInBytes_Args a = {.struct_size = PJRT_Buffer_OnDeviceSizeInBytes_Args_STRUCT_SIZE,
		.buffer = b};
	PJRT_Error *e = bare->PJRT_Buffer_OnDeviceSizeInBytes(&a);
	if (e) drop(e);
	else hold(b, (int64_t)a.on_device_size_in_bytes);
}

// stats_of is what a loaded program needs.
static PJRT_Executable_GetCompiledMemoryStats_Args stats_of(PJRT_LoadedExecutable *loaded) {
	PJRT_LoadedExecutable_GetExecutable_Args of = {.struct_size = PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE,
		.loaded_executable = loaded};
	PJRT_Executable_GetCompiledMemoryStats_Args s = {
		.struct_size = PJRT_Executable_GetCompiledMemoryStats_Args_STRUCT_SIZE};
	PJRT_Error *e = bare->PJRT_LoadedExecutable_GetExecutable(&of);
	if (!e) {
		s.executable = of.executable;
		e = bare->PJRT_Executable_GetCompiledMemoryStats(&s);
		PJRT_Executable_Destroy_Args done = {.struct_size = PJRT_Executable_Destroy_Args_STRUCT_SIZE,
			.executable = of.executable};
		PJRT_Error *lost = bare->PJRT_Executable_Destroy(&done);
		if (lost) drop(lost);
	}
	if (e) drop(e);
	return s;
}

static PJRT_Error *limited_compile(PJRT_Client_Compile_Args *a) {
	PJRT_Error *e = bare->PJRT_Client_Compile(a);
	if (!e) {
		int64_t code = stats_of(a->executable).generated_code_size_in_bytes;
		hold(a->executable, code > 0 ? code : 0);
	}
	return e;
}

static PJRT_Error *limited_load(PJRT_Executable_DeserializeAndLoad_Args *a) {
	PJRT_Error *e = bare->PJRT_Executable_DeserializeAndLoad(a);
	if (!e) {
		int64_t code = stats_of(a->loaded_executable).generated_code_size_in_bytes;
		hold(a->loaded_executable, code > 0 ? code : 0);
	}
	return e;
}

static PJRT_Error *limited_loaded_destroy(PJRT_LoadedExecutable_Destroy_Args *a) {
	let_go(a->executable);
	return bare->PJRT_LoadedExecutable_Destroy(a);
}

static PJRT_Error *limited_from_host(PJRT_Client_BufferFromHostBuffer_Args *a) {
	int64_t bytes = (int64_t)bytes_of(a->type);
	for (size_t i = 0; i < a->num_dims; i++) bytes *= a->dims[i];
	PJRT_Error *e = no_room("an array of the host", bytes);
	if (!e && !(e = bare->PJRT_Client_BufferFromHostBuffer(a))) hold_buffer(a->buffer);
	return e;
}

static PJRT_Error *limited_buffer_destroy(PJRT_Buffer_Destroy_Args *a) {
	let_go(a->buffer);
	return bare->PJRT_Buffer_Destroy(a);
}

// A program's outputs take the place of the inputs that are donated; its temporaries are there while it runs.
static PJRT_Error *limited_execute(PJRT_LoadedExecutable_Execute_Args *a) {
	PJRT_Executable_GetCompiledMemoryStats_Args s = stats_of(a->executable);
	PJRT_Error *e = no_room("a program", s.temp_size_in_bytes + s.output_size_in_bytes - s.alias_size_in_bytes);
	if (e || (e = bare->PJRT_LoadedExecutable_Execute(a))) return e;
	PJRT_LoadedExecutable_GetExecutable_Args of = {.struct_size = PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE,
		.loaded_executable = a->executable};
	if (bare->PJRT_LoadedExecutable_GetExecutable(&of)) abort();
	PJRT_Executable_NumOutputs_Args outputs = {.struct_size = PJRT_Executable_NumOutputs_Args_STRUCT_SIZE,
		.executable = of.executable};
	if (bare->PJRT_Executable_NumOutputs(&outputs)) abort();
	PJRT_Executable_Destroy_Args done = {.struct_size = PJRT_Executable_Destroy_Args_STRUCT_SIZE,
		.executable = of.executable};
	if (bare->PJRT_Executable_Destroy(&done)) abort();
	for (size_t d = 0; d < a->num_devices; d++) {
		for (size_t i = 0; i < a->num_args; i++) {
			PJRT_Buffer *b = a->argument_lists[d][i];
			PJRT_Buffer_IsDeleted_Args gone = {.struct_size = PJRT_Buffer_IsDeleted_Args_STRUCT_SIZE, .buffer = b};
			if (!bare->PJRT_Buffer_IsDeleted(&gone) && gone.is_deleted) let_go(b);
		}
		for (size_t i = 0; i < outputs.num_outputs; i++) hold_buffer(a->output_lists[d][i]);
	}
	return NULL;
}

static PJRT_Error *limited_memory(PJRT_Device_MemoryStats_Args *a) {
	pthread_mutex_lock(&lock);
	a->bytes_in_use = in_use;
	a->peak_bytes_in_use = peak;
	pthread_mutex_unlock(&lock);
	a->peak_bytes_in_use_is_set = a->bytes_limit_is_set = 1;
	a->bytes_limit = script.memory;
	return NULL;
}

// limit returns the calls of the real plugin with those in their place that count.
static const PJRT_Api *limit(const PJRT_Api *plugin) {
	static union { PJRT_Api api; char room[8192]; } counted;
	bare = plugin;
	memcpy(&counted, plugin, plugin->struct_size);
	PJRT_Api *api = &counted.api;
	api->PJRT_Client_PlatformName = client_platform;
	api->PJRT_DeviceDescription_Kind = description_kind;
	api->PJRT_Client_Compile = limited_compile;
	api->PJRT_Executable_DeserializeAndLoad = limited_load;
	api->PJRT_LoadedExecutable_Destroy = limited_loaded_destroy;
	api->PJRT_Client_BufferFromHostBuffer = limited_from_host;
	api->PJRT_Buffer_Destroy = limited_buffer_destroy;
	api->PJRT_LoadedExecutable_Execute = limited_execute;
	api->PJRT_Device_MemoryStats = limited_memory;
	return api;
}
