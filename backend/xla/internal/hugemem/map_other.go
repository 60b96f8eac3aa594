//go:build !unix

package hugemem

import "errors"

// Supported says that Take works on this system.
const Supported = false

func mapZeros(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) {}
