package pjrtc

import (
	"fmt"
	"reflect"

	"github.com/gomlx/go-xla/pjrt"
	"google.golang.org/protobuf/proto"
)

// SetOptions merges options, a serialized xla.CompileOptionsProto, into the options that go-xla compiles with.
func SetOptions(config *pjrt.CompileConfig, options []byte) error {
	if len(options) == 0 {
		return nil
	}
	at, err := field(config, reflect.Pointer, "options")
	if err != nil {
		return err
	}
	message, ok := reflect.NewAt(at.Type().Elem(), at.UnsafePointer()).Interface().(proto.Message)
	if !ok {
		return fmt.Errorf("pjrtc: the options of %T are a %v, not a message: Quire is built for go-xla %s", config,
			at.Type(), pinned)
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(options, message)
}
