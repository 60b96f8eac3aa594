"""Lowers the kernels to StableHLO, with their memories as arrays: so any XLA backend runs them without Mosaic.

    python arrays.py

It writes testdata/goldens/tpu_kernels.json.gz: for each of SHAPES a module, as text, which Quire's tests put into a
TPU's programs to run these on a CPU. Pallas has such a lowering (pallas_call with interpret=True), but it lacks what
the kernels do with their references: reading with a stride, writing below a reshape or a bitcast, copies whose size is
known at run time only, and scalars that one round of the grid leaves to the next. `discharged` adds it. A copy is made
when it is started, and semaphores are not counted: what waits for what is checked by goldens.py and goldens_update.py.
Memory that nothing was written to holds NaNs.
"""
import contextlib
import gzip
import json
import pathlib

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import core
from jax._src.pallas import core as pallas_core
from jax._src.pallas import hlo_interpreter, primitives
from jax._src.pallas.mosaic import primitives as tpu_primitives
from jax._src.state import discharge, indexing
from jax._src.state import primitives as state_primitives
from jax._src.state.types import BitcastTransform, ReshapeTransform
from jax._src.pallas.pallas_call import pallas_call_p

import capture
import common
import jax_rpa
import template
import tpu_inference_rpa as rpa

OUT = pathlib.Path(__file__).resolve().parents[2] / "testdata" / "goldens" / "tpu_kernels.json.gz"

FLOAT8 = {"kv_dtype": "float8_e4m3fn"}

# What the engine of a test asks for: heads, KV heads, head dim and page size, what else a layer has, and for each
# step (P, S, PP, T) as in the kernel's call, first that of prompts.
SHAPES = [
    ((9, 3, 64, 32), {}, [(240, 24, 8, 32), (240, 16, 8, 16)]),  # SmolLM2 in a loop of layers, of 8 pages each
    ((8, 2, 128, 16), {}, [(24, 24, 16, 32), (24, 16, 16, 16)]),
    ((4, 1, 128, 16), {}, [(24, 24, 16, 32), (24, 16, 16, 16)]),  # of two devices together
    ((8, 2, 128, 64), {}, [(24, 24, 8, 32), (24, 16, 16, 16)]),
    ((8, 2, 128, 128), {}, [(12, 24, 4, 32), (12, 16, 8, 16)]),
    ((4, 1, 128, 64), {}, [(24, 24, 8, 32), (24, 16, 16, 16)]),
    ((8, 2, 128, 64), FLOAT8, [(24, 24, 8, 32), (24, 16, 16, 16)]),
    ((9, 3, 64, 64), FLOAT8, [(240, 24, 4, 32), (240, 16, 4, 16)]),
    ((8, 1, 64, 16), {"sinks": True}, [(48, 24, 16, 32), (48, 16, 16, 16)]),  # both kinds of layers of a gpt-oss
    ((8, 1, 64, 16), {"sinks": True, "window": 128}, [(48, 24, 16, 32), (48, 16, 16, 16)]),
    ((4, 1, 256, 64), {}, [(48, 24, 16, 32), (48, 16, 16, 16)]),  # both kinds of layers of a Gemma 3
    ((4, 1, 256, 64), {"window": 512}, [(48, 24, 16, 32), (48, 16, 16, 16)]),
]


def _starts_and_sizes(index):
    starts = [i.start if isinstance(i, indexing.Slice) else i for i in index.indices]
    sizes = [i.size if isinstance(i, indexing.Slice) else 1 for i in index.indices]
    strides = [i.stride if isinstance(i, indexing.Slice) else 1 for i in index.indices]
    scalars = [n for n, i in enumerate(index.indices) if not isinstance(i, indexing.Slice)]
    return starts, sizes, strides, scalars


def _places(index):
    """The places that each axis of the indexed array has: arrays that index together."""
    starts, sizes, strides, scalars = _starts_and_sizes(index)
    axes = [
        jnp.asarray(start, jnp.int32) + jnp.arange(size, dtype=jnp.int32) * stride
        for start, size, stride in zip(starts, sizes, strides)]
    return jnp.ix_(*axes), scalars


def _bitcast(x, dtype):
    """A reference's bitcast packs rows of the second last axis: row 2i lies in the low half of the new row i."""
    if x.dtype == dtype:
        return x
    ratio = jnp.dtype(dtype).itemsize // x.dtype.itemsize
    if ratio == 1:
        return lax.bitcast_convert_type(x, dtype)
    if ratio > 1:
        x = x.reshape(x.shape[:-2] + (x.shape[-2] // ratio, ratio, x.shape[-1]))
        return lax.bitcast_convert_type(jnp.swapaxes(x, -1, -2), dtype)
    halves = jnp.swapaxes(lax.bitcast_convert_type(x, dtype), -1, -2)
    return halves.reshape(x.shape[:-2] + (-1, x.shape[-1]))


def _part(x, transform):
    """What transform shows of the array x, as two functions: one reads it, the other returns x with a value there."""
    if isinstance(transform, ReshapeTransform):
        return lambda: x.reshape(transform.shape), lambda value: value.reshape(x.shape)
    if isinstance(transform, BitcastTransform):
        return lambda: _bitcast(x, transform.dtype), lambda value: _bitcast(value, x.dtype)
    if discharge._is_trivial_indexer(transform):
        return lambda: x, lambda value: value
    starts, sizes, strides, scalars = _starts_and_sizes(transform)
    if all(s == 1 for s in strides):
        at = lambda: [jnp.asarray(s, jnp.int32) for s in starts]
        return (lambda: lax.squeeze(lax.dynamic_slice(x, at(), sizes), scalars),
                lambda value: lax.dynamic_update_slice(x, lax.expand_dims(value, scalars), at()))
    places = lambda: _places(transform)[0]
    return (lambda: lax.squeeze(x[places()], scalars),
            lambda value: x.at[places()].set(lax.expand_dims(value, scalars)))


def _read(x, transforms):
    for t in transforms or ():
        x = _part(x, t)[0]()
    return x


def _written(x, transforms, value):
    if not transforms:
        return value
    first, *rest = transforms
    read, put = _part(x, first)
    return put(_written(read(), rest, value))


def _load(in_avals, out_avals, *args, args_tree, **_):
    ref, transforms, mask, other = args_tree.unflatten(args)
    out = _read(ref, transforms)
    return (None,) * len(in_avals), out if mask is None or other is None else jnp.where(mask, out, other)


def _masked_swap(in_avals, out_avals, *args, args_tree, **_):
    ref, transforms, value, mask = args_tree.unflatten(args)
    old = _read(ref, transforms)
    if mask is not None:
        old, value = jnp.where(mask, old, value), jnp.where(mask, value, old)
    return (_written(ref, transforms, value),) + (None,) * (len(in_avals) - 1), old


def _get(in_avals, out_avals, x, *index, tree, **_):
    return (None,) * (len(index) + 1), _read(x, jax.tree.unflatten(tree, index))


def _swap(in_avals, out_avals, x, value, *index, tree, **_):
    transforms = jax.tree.unflatten(tree, index)
    return (_written(x, transforms, value), None) + (None,) * len(index), _read(x, transforms)


def _dynamic(transforms):
    """The axis, start and size of the last index if its size is known at run time only."""
    last = transforms[-1] if transforms else None
    if not isinstance(last, indexing.NDIndexer):
        return None
    found = [
        (n, i.start, i.size) for n, i in enumerate(last.indices) if isinstance(i, indexing.Slice) and i.is_dynamic_size]
    if not found:
        return None
    for n, i in enumerate(last.indices):
        assert n == found[0][0] or i.start == 0 and i.size == last.shape[n] and i.stride == 1, last
    return found[0]


def _copied(source, source_transforms, target, target_transforms):
    """The array target with a part of source."""
    size = _dynamic(source_transforms)
    if size is None:
        return _written(target, target_transforms, _read(source, source_transforms))
    axis, from_start, count = size
    to_axis, to_start, _ = _dynamic(target_transforms)
    assert axis == to_axis
    x, old = _read(source, source_transforms[:-1]), _read(target, target_transforms[:-1])
    at = lax.broadcasted_iota(jnp.int32, (old.shape[axis],), 0) - to_start
    moved = jnp.take(x, jnp.clip(at + from_start, 0, x.shape[axis] - 1), axis=axis)
    inside = ((at >= 0) & (at < count)).reshape([-1 if n == axis else 1 for n in range(old.ndim)])
    return _written(target, target_transforms[:-1], jnp.where(inside, moved, old))


def _dma_start(should_discharge, in_avals, out_avals, *args, tree, **_):
    source, target, semaphore, _, device = tpu_primitives._dma_unflatten(tree, args)
    assert device is None
    (source, from_transforms), (target, to_transforms) = (
        tpu_primitives._get_ref_and_transforms(r) for r in (source, target))
    target_at = len(tpu_primitives._dma_tree_leaves(tpu_primitives._dma_unflatten(tree, in_avals)[0]))
    _, discharge_target, *_ = tpu_primitives._dma_unflatten(tree, should_discharge)
    out = _copied(source[...], list(from_transforms), target[...], list(to_transforms))
    new = [None] * len(in_avals)
    if tpu_primitives._get_ref(discharge_target):
        new[target_at] = out
    else:
        state_primitives.ref_set(target, None, out)
    return tuple(new), []


def _dma_wait(should_discharge, in_avals, out_avals, *args, **_):
    return (None,) * len(in_avals), []


def _interpret(*args, jaxpr, grid_mapping, input_output_aliases, **_):
    """Runs the rounds of a grid one after the other. Blocks, scratch memory and prefetched scalars go from one to the
    next."""
    bounds, args = args[:grid_mapping.num_dynamic_grid_bounds], args[grid_mapping.num_dynamic_grid_bounds:]
    left = iter(bounds)
    grid = tuple(next(left) if isinstance(n, pallas_core.DynamicGridDim) else n for n in grid_mapping.grid)
    kernel, consts, scratch = hlo_interpreter.kernel_to_hlo_jaxpr(jaxpr, (), grid_mapping)
    out = hlo_interpreter._initialize_output_vals(grid_mapping.block_mappings_output, args, input_output_aliases)
    scalars = args[grid_mapping.slice_index_ops]
    mappings = grid_mapping.block_mappings
    shapes = [pallas_core._get_block_shape(m.block_shape) for m in mappings]
    squeezed = [tuple(isinstance(d, pallas_core.Squeezed) for d in m.block_shape) for m in mappings]
    blocks = [
        hlo_interpreter._pad_to_block_dimension(x, shape) for x, shape in zip((*args[len(scalars):], *out), shapes)]
    scratch = [primitives.uninitialized_value(a.shape, a.dtype) for a in scratch]
    rounds = 1
    for n in grid:
        rounds = rounds * n

    def body(state):
        at, place, scalars, blocks, scratch = state
        with pallas_core.grid_env(tuple(pallas_core.GridAxis(i, n) for i, n in zip(place, grid))):
            starts = [m.compute_start_indices_interpret(place, *scalars) for m in mappings]
            now = [hlo_interpreter._dynamic_slice(*x) for x in zip(starts, shapes, blocks, squeezed)]
            new = core.eval_jaxpr(kernel, consts, *scalars, *now, *scratch)
        n, m = len(scalars), len(scalars) + len(blocks)
        blocks = [hlo_interpreter._dynamic_update_slice(*x) for x in zip(starts, shapes, blocks, new[n:m], squeezed)]
        return at + 1, hlo_interpreter._get_next_indices(grid, place), tuple(new[:n]), blocks, new[m:]

    state = (jnp.int32(0), (jnp.int32(0),) * len(grid), tuple(scalars), blocks, scratch)
    blocks = lax.while_loop(lambda state: state[0] < rounds, body, state)[3]
    results = blocks[len(blocks) - len(out):]
    return [
        r[tuple(slice(0, d) for d in m.array_aval.shape)] for r, m in zip(results, grid_mapping.block_mappings_output)]


_rules = {
    primitives.load_p: _load, primitives.swap_p: _masked_swap, state_primitives.get_p: _get,
    state_primitives.swap_p: _swap}
_partial = {tpu_primitives.dma_start_p: _dma_start, tpu_primitives.dma_wait_p: _dma_wait}


@contextlib.contextmanager
def discharged():
    """Within it Pallas kernels that are interpreted become operations on arrays."""
    rules, partial = dict(discharge._discharge_rules), dict(discharge._partial_discharge_rules)
    interpret = hlo_interpreter.pallas_call_hlo_interpret
    discharge._discharge_rules.update(_rules)
    discharge._partial_discharge_rules.update(_partial)
    hlo_interpreter.pallas_call_hlo_interpret = _interpret
    jax.clear_caches()
    try:
        yield
    finally:
        discharge._discharge_rules.update(rules)
        discharge._partial_discharge_rules.update(partial)
        hlo_interpreter.pallas_call_hlo_interpret = interpret
        jax.clear_caches()


def _calls(jaxpr):
    for equation in jaxpr.eqns:
        if equation.primitive is pallas_call_p:
            yield equation
            continue
        for inner in core.jaxprs_in_params(equation.params):
            yield from _calls(inner)


def _passed(dtype):
    """The dtype as which an operand is passed."""
    return jnp.dtype("uint8") if dtype.itemsize == 1 else dtype


def lower(fn, operands, count):
    """Returns the count kernels of fn as StableHLO modules, as text. Their functions main take what the kernels' custom
    calls take, and 8-bit floats as bytes."""
    with template.tpu_target():
        jax.clear_caches()
        calls = list(_calls(jax.make_jaxpr(fn)(*operands).jaxpr))
    if len(calls) != count:
        raise SystemExit(f"{count} kernels were expected, and there are {len(calls)}")
    lowered = []
    for call in calls:
        types = [jax.ShapeDtypeStruct(v.aval.shape, _passed(v.aval.dtype)) for v in call.invars]
        params = {**call.params, "interpret": True}

        def run(*args):
            args = [lax.bitcast_convert_type(x, v.aval.dtype) for x, v in zip(args, call.invars)]
            return [lax.bitcast_convert_type(x, _passed(x.dtype)) for x in pallas_call_p.bind(*args, **params)]

        with discharged():
            kernel = jax.jit(run, keep_unused=True)
            text = kernel.trace(*types).lower(lowering_platforms=("cpu",)).as_text()
        lowered.append((text, [[v.aval.dtype.name, list(v.aval.shape)] for v in call.invars]))
    return lowered


def kernels(heads, kv_heads, head_dim, page_size, more, steps):
    config = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "page_size": page_size, "dtype": "bfloat16",
              "kv_dtype": "bfloat16",
              "scale": head_dim ** -0.5, "window": 0, "soft_cap": 0.0, **more}
    versions = {"jax": jax.__version__}
    for p, s, pp, t in steps:
        numbers = {"P": p, "S": s, "PP": pp, "T": t}
        if not common.updates(config):
            queries, pages = jax_rpa.blocks(config, 8 if t <= s else 32)
            fn, given = jax_rpa.attend(config, queries, pages), jax_rpa.operands(config, {**numbers, "Q": 1}, t)
            (module, operands), = lower(fn, given, 1)
            yield {"kernel": jax_rpa.KERNEL, "versions": versions, "config": config,
                   "blocks": {"queries": queries, "pages": pages}, "operands": operands, "module": module}
            continue
        sizes = capture.blocks(config)
        for at, (form, (queries, pages)) in enumerate(sizes.items()):
            if form == (rpa.MIXED if t <= s else rpa.DECODE):
                continue
            module, operands = lower(rpa.attend(config, sizes), rpa.operands(config, numbers), len(sizes))[at]
            yield {"kernel": rpa.KERNEL, "versions": {**versions, rpa.PACKAGE: rpa.VERSION}, "config": config,
                   "blocks": {"queries": queries, "pages": pages}, "operands": operands, "module": module}


def main():
    all_kernels = [k for shape, more, steps in SHAPES for k in kernels(*shape, more, steps)]
    for k in all_kernels:
        print(k["kernel"], k["config"], k["operands"], len(k["module"]), "bytes")
    text = json.dumps(all_kernels, separators=(",", ":"), sort_keys=True)
    OUT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(OUT, OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
