package cpukernel

/*
#include "attention.h"
*/
import "C"

import "unsafe"

// attentionHandlers returns the kernels of attention.h.
func attentionHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{
		"quire_kv_update":              unsafe.Pointer(C.quire_kv_update),
		"quire_copy_pages":             unsafe.Pointer(C.quire_copy_pages),
		"quire_zero_pages":             unsafe.Pointer(C.quire_zero_pages),
		"quire_zeros":                  unsafe.Pointer(C.quire_zeros),
		"quire_ragged_paged_attention": unsafe.Pointer(C.quire_ragged_paged_attention),
		"quire_latent_attention":       unsafe.Pointer(C.quire_latent_attention),
	}
}
