//go:build tools

package quire

import (
	_ "github.com/gofrs/flock"
	_ "github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend"
	_ "github.com/gomlx/go-huggingface/hub"
	_ "github.com/gomlx/go-xla/compute/xla"
	_ "github.com/gomlx/gomlx/core/graph"
	_ "github.com/parquet-go/parquet-go"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/pflag"
	_ "pgregory.net/rapid"
)
