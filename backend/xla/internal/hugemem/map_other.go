//go:build !unix

package hugemem

import "errors"

// Supported reports whether Take works on this system.
const Supported = false

func mapZeros(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) {}
