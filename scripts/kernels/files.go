// Package kernels embeds the Python scripts that lower Pallas kernels to payloads, for the command that runs them
// without a checkout of the repository.
package kernels

import "embed"

// Files are the scripts, and requirements.txt with the versions of what they import.
//
//go:embed *.py requirements.txt
var Files embed.FS
