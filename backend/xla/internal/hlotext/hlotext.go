// Package hlotext prints optimized programs as text close to XLA's own.
package hlotext

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quire/quire/backend/xla/cpukernel"
)

// Module returns the module of a serialized xla.HloModuleProtoWithConfig.
func Module(withConfig []byte) ([]byte, error) {
	m, err := parse(withConfig)
	return m.one(1), err
}

// message is a protocol buffer message, by field number. The numbers below are from xla/service/hlo.proto and
// xla_data.proto.
type message map[protowire.Number][]value

type value struct {
	bytes  []byte
	varint uint64
}

func parse(b []byte) (message, error) {
	m := message{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		var v value
		switch kind {
		case protowire.VarintType:
			v.varint, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		m[number] = append(m[number], v)
		b = b[n:]
	}
	return m, nil
}

func (m message) one(number protowire.Number) []byte {
	if v := m[number]; len(v) > 0 {
		return v[len(v)-1].bytes
	}
	return nil
}

func (m message) int(number protowire.Number) int64 {
	if v := m[number]; len(v) > 0 {
		return int64(v[len(v)-1].varint)
	}
	return 0
}

// ints returns a repeated integer field, packed or not.
func (m message) ints(number protowire.Number) []int64 {
	var out []int64
	for _, v := range m[number] {
		if v.bytes == nil {
			out = append(out, int64(v.varint))
			continue
		}
		for b := v.bytes; len(b) > 0; {
			x, n := protowire.ConsumeVarint(b)
			if n < 0 {
				break
			}
			out, b = append(out, int64(x)), b[n:]
		}
	}
	return out
}

// primitives names the element types.
var primitives = map[int64]string{
	1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16", 11: "f32",
	12: "f64", 15: "c64",
	16: "bf16", 17: "token", 18: "c128", 21: "s4", 22: "u4",
}

func printShape(b []byte) (string, error) {
	s, err := parse(b)
	if err != nil {
		return "", err
	}
	const tuple = 13
	if s.int(2) == tuple {
		var parts []string
		for _, v := range s[4] {
			part, err := printShape(v.bytes)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		return "(" + strings.Join(parts, ", ") + ")", nil
	}
	name := primitives[s.int(2)]
	if name == "" {
		name = fmt.Sprintf("type%d", s.int(2))
	}
	text := name + "[" + commas(s.ints(3)) + "]"
	layout, err := parse(s.one(5))
	if err != nil {
		return "", err
	}
	if order := layout.ints(1); len(order) > 0 {
		space := "" // of memory, if it is not the device's own
		if s := layout.int(8); s != 0 {
			space = fmt.Sprintf(":S(%d)", s)
		}
		text += "{" + commas(order) + space + "}"
	}
	return text, nil
}

func commas(numbers []int64) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ",")
}

// chained finds the kernels of a chain in its backend_config, which cpukernel/chain.h describes.
var chained = regexp.MustCompile(`k\d{3}\.(\w+) = `)

// estimate finds the compiler's estimate in an instruction's backend_config.
var estimate = regexp.MustCompile(`"estimated_cycles":"(\d+)"`)

// Print prints a serialized xla.HloModuleProto.
func Print(b []byte) (string, error) {
	module, err := parse(b)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "HloModule %s", module.one(1))
	aliases, err := parse(module.one(8))
	if err != nil {
		return "", err
	}
	for _, v := range aliases[1] {
		entry, err := parse(v.bytes)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, ", alias{output %s = parameter %d}", commas(entry.ints(1)), entry.int(2))
	}
	out.WriteString("\n")
	names := map[int64]string{} // of computations, by id
	var computations []message
	for _, v := range module[3] {
		c, err := parse(v.bytes)
		if err != nil {
			return "", err
		}
		names[c.int(5)] = string(c.one(1))
		computations = append(computations, c)
	}
	for _, c := range computations {
		entry := ""
		if c.int(5) == module.int(6) {
			entry = "ENTRY "
		}
		fmt.Fprintf(&out, "\n%s%%%s {\n", entry, c.one(1))
		if err := printInstructions(&out, c, names); err != nil {
			return "", err
		}
		out.WriteString("}\n")
	}
	return out.String(), nil
}

func printInstructions(out *strings.Builder, computation message, computations map[int64]string) error {
	names := map[int64]string{}
	var instructions []message
	for _, v := range computation[2] {
		i, err := parse(v.bytes)
		if err != nil {
			return err
		}
		names[i.int(35)] = string(i.one(1))
		instructions = append(instructions, i)
	}
	for _, i := range instructions {
		shape, err := printShape(i.one(3))
		if err != nil {
			return err
		}
		var operands []string
		for _, id := range i.ints(36) {
			operands = append(operands, "%"+names[id])
		}
		if string(i.one(2)) == "parameter" {
			operands = []string{fmt.Sprint(i.int(9))}
		}
		if string(i.one(2)) == "get-tuple-element" {
			operands = append(operands, fmt.Sprintf("index=%d", i.int(13)))
		}
		root := ""
		if i.int(35) == computation.int(6) {
			root = "ROOT "
		}
		fmt.Fprintf(out, "  %s%%%s = %s %s(%s)", root, i.one(1), shape, i.one(2), strings.Join(operands, ", "))
		for _, id := range i.ints(38) {
			fmt.Fprintf(out, ", calls=%%%s", computations[id])
		}
		if target := i.one(28); len(target) > 0 {
			fmt.Fprintf(out, ", custom_call_target=%q", target)
			if kernels := chained.FindAllSubmatch(i.one(43), -1); string(target) == cpukernel.Chain {
				var names []string
				for _, k := range kernels {
					names = append(names, string(k[1]))
				}
				fmt.Fprintf(out, ", kernels={%s}", strings.Join(names, ", "))
			}
		}
		if m := estimate.FindSubmatch(i.one(43)); m != nil {
			fmt.Fprintf(out, ", cycles=%s", m[1])
		}
		out.WriteString("\n")
	}
	return nil
}

// Choices returns a digest of what a compiler chose for the operations of a serialized xla.HloModuleProto: their kinds
// and shapes, and how each is computed (custom_call_target, fusion_kind and backend_config). It leaves out names and
// numbers, and is the same whether the program was compiled now or read from a file.
func Choices(b []byte) (string, error) {
	module, err := parse(b)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	for _, v := range module[3] {
		computation, err := parse(v.bytes)
		if err != nil {
			return "", err
		}
		for _, v := range computation[2] {
			i, err := parse(v.bytes)
			if err != nil {
				return "", err
			}
			shape, err := printShape(i.one(3))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(digest, "%s %s %q %q %q\n", i.one(2), shape, i.one(28), i.one(11), i.one(43))
		}
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
