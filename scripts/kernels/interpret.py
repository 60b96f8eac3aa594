"""Runs Pallas TPU kernels on a CPU in JAX's TPU interpret mode, which simulates memories, copies and semaphores.

JAX 0.10.2's interpreter reads and writes no reference that was reshaped or bitcast, which paged attention does with its
buffers: `get`, `swap` and `store` are wrapped so that they take what lies under the first such change and make the
change in NumPy. Nor does it store under a mask of more than one axis rightly (it looks at the first axis only): `swap`
reads, merges and writes.
"""
import contextlib

import jax
import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
from jax._src.state import indexing
from jax.experimental.pallas import tpu as pltpu

_originals = {name: getattr(interpreter, name) for name in ("get", "swap", "store")}
_get, _swap, _store = (f.__wrapped__ for f in _originals.values())


def _index(transform):
    def one(i):
        if isinstance(i, indexing.Slice):
            return slice(int(i.start), int(i.start) + int(i.size) * int(i.stride), int(i.stride))
        return int(i)
    return tuple(one(i) for i in transform.indices)


def _bitcast(x, dtype):
    """A reference's bitcast packs rows of the second last axis: of the rows of a new row, the first lies in its low
    bits."""
    ratio = np.dtype(dtype).itemsize // x.dtype.itemsize
    if ratio == 1:
        return x.view(dtype)
    rows = np.moveaxis(x.reshape(*x.shape[:-2], -1, ratio, x.shape[-1]), -2, -1)
    return np.ascontiguousarray(rows).view(dtype)[..., 0]


def _unbitcast(x, dtype):
    """The inverse of _bitcast."""
    ratio = x.dtype.itemsize // np.dtype(dtype).itemsize
    if ratio == 1:
        return x.view(dtype)
    rows = np.moveaxis(np.ascontiguousarray(x)[..., None].view(dtype), -1, -2)
    return rows.reshape(*x.shape[:-2], ratio * x.shape[-2], x.shape[-1])


def _forward(x, t):
    if isinstance(t, indexing.NDIndexer):
        return x[_index(t)]
    return x.reshape(t.shape) if hasattr(t, "shape") else _bitcast(x, t.dtype)


def _first_change(transforms):
    """The place of the first transform that is no indexing, or None."""
    return next((i for i, t in enumerate(transforms) if not isinstance(t, indexing.NDIndexer)), None)


def _get_any(token, device, core, space, buffer, transforms, *args, **kwargs):
    first = _first_change(transforms)
    if first is None:
        return _get(token, device, core, space, buffer, transforms, *args, **kwargs)
    token, x = _get(token, device, core, space, buffer, transforms[:first], *args, **kwargs)
    x = np.asarray(x)
    for t in transforms[first:]:
        x = _forward(x, t)
    return token, x


def _swap_any(token, device, core, space, buffer, transforms, val, mask, **kwargs):
    first = _first_change(transforms)
    if first is not None:
        token, x = _get(token, device, core, space, buffer, transforms[:first])
        views = [np.array(x)]
        for t in transforms[first:]:
            views.append(_forward(views[-1], t))
        old, new = views[-1], np.asarray(val).reshape(views[-1].shape)
        new = new if mask is None else np.where(np.asarray(mask), new, old)
        for t, before in zip(reversed(transforms[first:]), reversed(views[:-1])):
            if isinstance(t, indexing.NDIndexer):
                before = before.copy()
                before[_index(t)] = new
                new = before
            else:
                new = new.reshape(before.shape) if hasattr(t, "shape") else _unbitcast(new, before.dtype)
        token, _ = _swap(token, device, core, space, buffer, transforms[:first], new, None, **kwargs)
        return token, old if mask is None else np.where(np.asarray(mask), old, np.asarray(val))
    if mask is None:
        return _swap(token, device, core, space, buffer, transforms, val, mask, **kwargs)
    token, old = _get(token, device, core, space, buffer, transforms)
    val, mask = np.asarray(val), np.asarray(mask)
    token, _ = _swap(token, device, core, space, buffer, transforms, np.where(mask, val, old), None, **kwargs)
    return token, np.where(mask, old, val)


def _store_any(token, device, core, space, buffer, transforms, val, *args, **kwargs):
    if _first_change(transforms) is None:
        return _store(token, device, core, space, buffer, transforms, val, *args, **kwargs)
    return _swap_any(token, device, core, space, buffer, transforms, val, None)[0]


for _f in (_get_any, _swap_any, _store_any):
    _f.__wrapped__ = _f  # which copies call


@contextlib.contextmanager
def interpreted(**params):
    """Within it Pallas TPU kernels are interpreted. Memory that was not written holds NaNs."""
    interpreter.get, interpreter.swap, interpreter.store = _get_any, _swap_any, _store_any
    jax.clear_caches()
    try:
        with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(uninitialized_memory="nan", **params)):
            yield
    finally:
        for name, f in _originals.items():
            setattr(interpreter, name, f)
        jax.clear_caches()
