package quantized

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/quire/quire/models/arch"
)

// compressed is the format of compressed-tensors: weight I8 or F8_E4M3 [out, in], or weight_packed I32 [out,
// in*bits/32], which packs consecutive inputs. There is a scale for the matrix, or for each row, group of a row, or
// block.
type compressed struct {
	groups []compressedGroup
	ignore *targets
	kv     string // what the config wants keys and values stored as
}

// compressedGroup describes how the modules of some targets are quantized.
type compressedGroup struct {
	targets *targets
	weights quantArgs
	inputs  string // what the config wants activations rounded to
}

// quantArgs are compressed-tensors' QuantizationArgs, as far as they describe what is stored.
type quantArgs struct {
	Bits      int             `json:"num_bits"`
	Type      string          `json:"type"`
	Symmetric *bool           `json:"symmetric"`
	Group     *int            `json:"group_size"`
	Strategy  string          `json:"strategy"`
	Block     json.RawMessage `json:"block_structure"`
	Dynamic   json.RawMessage `json:"dynamic"`
	Order     json.RawMessage `json:"actorder"`

	rows, columns int // rows and columns that share a scale; 0: all
}

const (
	weightPacked = "weight_packed"
	zeroPoint    = "weight_zero_point"
	weightShape  = "weight_shape"
	weightIndex  = "weight_g_idx"
)

var compressedSuffixes = []string{weightPacked, weightScale, zeroPoint, weightShape, weightIndex, inputScale,
	"input_zero_point", "output_scale", "output_zero_point", "k_scale", "v_scale", "q_scale"}

func parseCompressed(c *config) (reader, error) {
	for _, key := range []string{"transform_config", "sparsity_config"} {
		var options struct {
			Format string                     `json:"format"`
			Groups map[string]json.RawMessage `json:"config_groups"`
		}
		if c.decode(key, &options); len(options.Groups) > 0 || options.Format != "" && options.Format != "dense" {
			return nil, arch.Unsupported("use a checkpoint without it", "%s (format %q)", key, options.Format)
		}
	}
	switch format := c.str("format", "dense"); format {
	case "dense", "int-quantized", "float-quantized", "naive-quantized", "pack-quantized", "mixed-precision":
	default:
		return nil, arch.Unsupported("int-, float-, naive- and pack-quantized are", "format %q", format)
	}
	q := &compressed{}
	var err error
	if q.ignore, err = newTargets(c.list("ignore")); err != nil {
		return nil, err
	}
	var kv *quantArgs
	if c.decode("kv_cache_scheme", &kv); kv != nil {
		q.kv = kv.activations()
	}
	var groups map[string]json.RawMessage
	c.decode("config_groups", &groups)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		g, err := parseGroup(groups[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		q.groups = append(q.groups, g)
	}
	return q, nil
}

func parseGroup(text json.RawMessage) (g compressedGroup, err error) {
	var group struct {
		Targets []string   `json:"targets"`
		Weights *quantArgs `json:"weights"`
		Inputs  *quantArgs `json:"input_activations"`
		Outputs *quantArgs `json:"output_activations"`
		Format  string     `json:"format"`
	}
	if len(text) > 0 && text[0] == '[' {
		return g, arch.Unsupported("write out what it stands for", "a group that is the name of a preset")
	}
	if err := json.Unmarshal(text, &group); err != nil {
		return g, fmt.Errorf("it is not of the expected type: %w", err)
	}
	if group.Weights == nil {
		return g, arch.Unsupported("", "a group without weights")
	}
	if g.targets, err = newTargets(group.Targets); err != nil {
		return g, err
	}
	g.weights = *group.Weights
	for _, a := range []*quantArgs{group.Inputs, group.Outputs} {
		if a != nil {
			g.inputs = a.activations()
		}
	}
	return g, g.weights.settle()
}

// settle sets defaults and rejects what is not supported.
func (a *quantArgs) settle() error {
	if a.Bits == 0 {
		a.Bits = 8
	}
	if a.Type == "" {
		a.Type = "int"
	}
	if a.Type == "int" && a.Bits != 4 && a.Bits != 8 || a.Type == "float" && a.Bits != 8 ||
		a.Type != "int" && a.Type != "float" {
		return arch.Unsupported("int of 4 or 8 bits and float of 8 are", "weights of type %s with num_bits %d", a.Type,
			a.Bits)
	}
	if a.Type == "float" && !a.symmetric() {
		return arch.Unsupported("symmetric ones are", "floats that are not symmetric")
	}
	group := -1
	if a.Group != nil {
		group = *a.Group
	}
	if a.Strategy == "" && a.Group != nil {
		a.Strategy = "channel"
		if group > 0 {
			a.Strategy = "group"
		}
	}
	switch a.Strategy {
	case "tensor", "":
		return nil
	case "channel":
		a.rows = 1
	case "group":
		if group < 1 {
			return fmt.Errorf("strategy group has group_size %d; it must be at least 1", group)
		}
		a.rows, a.columns = 1, group
	case "block":
		var size []int
		if json.Unmarshal(a.Block, &size) != nil || len(size) != 2 || size[0] < 1 || size[1] < 1 {
			return fmt.Errorf("block_structure is %s, not two numbers from 1 on", a.Block)
		}
		a.rows, a.columns = size[0], size[1]
	default:
		return arch.Unsupported("tensor, channel, group and block are", "strategy %q of weights", a.Strategy)
	}
	return nil
}

func (a *quantArgs) symmetric() bool { return a.Symmetric == nil || *a.Symmetric }

// ordered reports whether columns may be in a different order from their groups.
func (a *quantArgs) ordered() bool {
	return slices.Contains([]string{`"group"`, `"dynamic"`, "true"}, string(a.Order))
}

// activations returns what the config wants activations rounded to.
func (a *quantArgs) activations() string {
	bits, kind, how := a.Bits, a.Type, "static"
	if bits == 0 {
		bits = 8
	}
	if kind == "" {
		kind = "int"
	}
	if d := string(a.Dynamic); d != "" && d != "false" && d != "null" {
		how = "dynamic"
	}
	if a.Strategy != "" {
		how += ", by " + a.Strategy
	}
	return fmt.Sprintf("%s%d (%s)", kind, bits, how)
}

func (q *compressed) text() string {
	text := ""
	for i, g := range q.groups {
		if i > 0 {
			text += " and "
		}
		w := g.weights
		text += fmt.Sprintf("%s%d", w.Type, w.Bits)
		switch {
		case w.Strategy == "group":
			text += ", " + groupsText(w.columns)
		case w.rows == 0:
			text += ", a scale for each matrix"
		case w.columns == 0:
			text += ", " + groupsText(-1)
		default:
			text += fmt.Sprintf(", scales of %d x %d", w.rows, w.columns)
		}
		if !w.symmetric() {
			text += ", zero points"
		}
	}
	return text
}

func (q *compressed) asks() (asks []string) {
	for _, g := range q.groups {
		ask := "activations to " + g.inputs
		if g.inputs != "" && !slices.Contains(asks, ask) {
			asks = append(asks, ask)
		}
	}
	if q.kv != "" {
		asks = append(asks, "keys and values to "+q.kv)
	}
	return asks
}

func (q *compressed) matrix(module Module, parts map[string]Tensor) (*Matrix, error) {
	packed, isPacked := parts[weightPacked]
	scale, scaled := parts[weightScale]
	w, there := parts[weight]
	switch {
	case !isPacked && !there:
		return nil, nil // perhaps scales of keys and values, which are not used
	case !isPacked && !scaled:
		return nil, unscaled(w, weightScale)
	case !scaled:
		return nil, fmt.Errorf("there is no %s", weightScale)
	case !isPacked && w.isFloat():
		return nil, arch.Unsupported("compress the checkpoint", "weights of dtype %s that are to be rounded when used",
			w.DType)
	}
	args, err := q.argsOf(module)
	if err != nil {
		return nil, err
	}
	switch {
	case isPacked:
		return packedMatrix(parts, packed, args)
	case args.Type == "float":
		return e4m3Matrix(w, weightScale, scale, args.rows, args.columns)
	}
	if w.DType != "I8" || len(w.Shape) != 2 || args.Bits > 8 {
		return nil, arch.Unsupported("I8 of two dimensions is", "a quantized weight of dtype %s and shape %v", w.DType,
			w.Shape)
	}
	m := &Matrix{Out: w.Shape[0], In: w.Shape[1], Stored: "int8", bits: 8}
	m.quants = bytesOf(w.Data, m.In, 128)
	m.scales, err = newGrid(weightScale, scale, m.Out, m.In, or(args.rows, m.Out), or(args.columns, m.In))
	if err != nil || args.symmetric() {
		return m, err
	}
	zeros, err := need(parts, zeroPoint, "I8", 0)
	if err != nil {
		return nil, err
	}
	if len(zeros.Data) != ceil(m.Out, m.scales.rows)*m.scales.width {
		return nil, fmt.Errorf("%s has shape %v, and %s %v", zeroPoint, zeros.Shape, weightScale, scale.Shape)
	}
	m.zeros = func(row, group int) uint8 { return zeros.Data[row/m.scales.rows*m.scales.width+group] ^ 128 }
	return m, nil
}

// argsOf returns how a module is quantized.
func (q *compressed) argsOf(module Module) (quantArgs, error) {
	ignored, _, err := q.ignore.match(module)
	if err != nil {
		return quantArgs{}, err
	}
	if ignored > 0 {
		return quantArgs{}, fmt.Errorf("quantization_config ignores the module, but its weight is quantized")
	}
	best, target, index := 0, "", -1
	for i, g := range q.groups {
		rank, by, err := g.targets.match(module)
		if err != nil {
			return quantArgs{}, err
		}
		if rank > best || rank > 0 && rank == best && by <= target {
			best, target, index = rank, by, i
		}
	}
	if index < 0 {
		return quantArgs{}, fmt.Errorf("no group of quantization_config has the module, but its weight is quantized")
	}
	return q.groups[index].weights, nil
}

// packedMatrix returns the matrix of a weight_packed.
func packedMatrix(parts map[string]Tensor, words Tensor, args quantArgs) (*Matrix, error) {
	if args.Type != "int" || words.DType != "I32" || len(words.Shape) != 2 {
		return nil, arch.Unsupported("I32 of two dimensions is", "%s of dtype %s and shape %v, of type %s",
			weightPacked, words.DType, words.Shape, args.Type)
	}
	each, width := 32/args.Bits, words.Shape[1]
	m := &Matrix{Out: words.Shape[0], In: width * each, Stored: fmt.Sprintf("packed int%d", args.Bits), bits: args.Bits}
	if shape, ok := parts[weightShape]; ok {
		out, in, err := shapeOf(shape)
		if err != nil {
			return nil, err
		}
		if out != m.Out || in < 1 || in > m.In || ceil(in, each) != width {
			return nil, fmt.Errorf("%s is [%d, %d], but %s has shape %v", weightShape, out, in, weightPacked,
				words.Shape)
		}
		m.In = in
	}
	if args.columns > 0 && m.In%args.columns != 0 {
		return nil, fmt.Errorf("%d inputs are not a multiple of group_size %d", m.In, args.columns)
	}
	var err error
	if m.scales, err = newGrid(weightScale, parts[weightScale], m.Out, m.In, or(args.rows, m.Out),
		or(args.columns, m.In)); err != nil {
		return nil, err
	}
	if index, ok := parts[weightIndex]; ok {
		if m.order, err = compressedOrder(index, m); err != nil {
			return nil, err
		}
	}
	data, bits := words.Data, args.Bits
	m.quants = func(to []uint8, row, n int) {
		for r := range n {
			quants := to[r*m.In:][:m.In]
			for index := range m.In / each {
				putWord(quants[index*each:], word(data, (row+r)*width+index), bits)
			}
			for i := m.In / each * each; i < m.In; i++ {
				quants[i] = uint8(word(data, (row+r)*width+i/each) >> (i % each * bits) & (1<<bits - 1))
			}
		}
	}
	if args.symmetric() {
		return m, nil
	}
	zeros, err := need(parts, zeroPoint, "I32", 2)
	if err != nil {
		return nil, err
	}
	groups := m.scales.width
	if zeros.Shape[0] != ceil(m.Out, each) || zeros.Shape[1] != groups || m.scales.rows != 1 {
		return nil, fmt.Errorf("%s has shape %v, not [%d, %d]", zeroPoint, zeros.Shape, ceil(m.Out, each), groups)
	}
	m.zeros = func(row, group int) uint8 {
		return uint8(word(zeros.Data, row/each*groups+group) >> (row % each * bits) & (1<<bits - 1))
	}
	return m, nil
}

// compressedOrder reads weight_g_idx, in which a -1 means that the columns are in order. All groups have the same
// size.
func compressedOrder(index Tensor, m *Matrix) ([]int32, error) {
	for i := 0; index.DType == "I32" && i < len(index.Data)/4; i++ {
		if int32(word(index.Data, i)) == -1 {
			return nil, nil
		}
	}
	order, err := orderOf(weightIndex, index, m.In, m.scales.columns, m.scales.width)
	if err != nil {
		return nil, err
	}
	sizes := make([]int, m.scales.width)
	for i, group := range order {
		if sizes[group]++; sizes[group] > m.scales.columns {
			return nil, fmt.Errorf("%s puts more than %d columns in group %d, as of column %d", weightIndex,
				m.scales.columns, group, i)
		}
	}
	return order, nil
}

// shapeOf reads weight_shape.
func shapeOf(t Tensor) (out, in int, err error) {
	switch {
	case t.DType == "I64" && len(t.Data) == 16:
		return int(binary.LittleEndian.Uint64(t.Data)), int(binary.LittleEndian.Uint64(t.Data[8:])), nil
	case t.DType == "I32" && len(t.Data) == 8:
		return int(word(t.Data, 0)), int(word(t.Data, 1)), nil
	}
	return 0, 0, fmt.Errorf("%s is %s %v, not I64 [2]", weightShape, t.DType, t.Shape)
}

func (q *compressed) planned(m Module) *planned {
	args, err := q.argsOf(m)
	if err != nil || args.ordered() {
		return nil
	}
	return &planned{bits: args.Bits, e4m3: args.Type == "float", zero: !args.symmetric(), columns: args.columns}
}
