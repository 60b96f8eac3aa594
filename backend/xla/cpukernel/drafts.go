package cpukernel

// #include "drafts.h"
import "C"

import "unsafe"

// draftHandlers returns the kernels of drafts.h.
func draftHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{
		"quire_draft_text": unsafe.Pointer(C.quire_draft_text), "quire_draft_log": unsafe.Pointer(C.quire_draft_log),
	}
}
