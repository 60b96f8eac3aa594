"""Runs Pallas TPU kernels on a CPU in JAX's TPU interpret mode, which simulates memories, copies and semaphores.

JAX 0.10.2's interpreter reads no reference that was reshaped or bitcast, which paged attention does with its buffers: `get` is
wrapped so that it reads what lies under the first such change and makes the change in NumPy. Nor does it store under a mask of more
than one axis rightly (it looks at the first axis only): `swap` is wrapped to read, merge and write.
"""
import contextlib

import jax
import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
from jax._src.state import indexing
from jax.experimental.pallas import tpu as pltpu

_get, _swap = interpreter.get, interpreter.swap


def _index(transform):
    def one(i):
        if isinstance(i, indexing.Slice):
            return slice(int(i.start), int(i.start) + int(i.size) * int(i.stride), int(i.stride))
        return int(i)
    return tuple(one(i) for i in transform.indices)


def _bitcast(x, dtype):
    """A reference's bitcast packs rows of the second last axis: row 2i lies in the low half of the new row i."""
    ratio = np.dtype(dtype).itemsize // x.dtype.itemsize
    if ratio == 1:
        return x.view(dtype)
    assert ratio == 2 and x.dtype.itemsize == 2, "only 16 to 32 bits are needed"
    bits = x.view(np.uint16).astype(np.uint32)
    return (bits[..., 0::2, :] | bits[..., 1::2, :] << 16).view(dtype)


def _get_any(token, device, core, space, buffer, transforms, *args, **kwargs):
    plain = [isinstance(t, indexing.NDIndexer) for t in transforms]
    if all(plain):
        return _get(token, device, core, space, buffer, transforms, *args, **kwargs)
    first = plain.index(False)
    token, x = _get(token, device, core, space, buffer, transforms[:first], *args, **kwargs)
    x = np.asarray(x)
    for t in transforms[first:]:
        if isinstance(t, indexing.NDIndexer):
            x = x[_index(t)]
        elif hasattr(t, "shape"):
            x = x.reshape(t.shape)
        else:
            x = _bitcast(x, t.dtype)
    return token, x


def _swap_any(token, device, core, space, buffer, transforms, val, mask, **kwargs):
    if mask is None:
        return _swap(token, device, core, space, buffer, transforms, val, mask, **kwargs)
    token, old = _get(token, device, core, space, buffer, transforms)
    val, mask = np.asarray(val), np.asarray(mask)
    token, _ = _swap(token, device, core, space, buffer, transforms, np.where(mask, val, old), None, **kwargs)
    return token, np.where(mask, old, val)


_get_any.__wrapped__ = _get.__wrapped__  # which copies call


@contextlib.contextmanager
def interpreted(**params):
    """Within it Pallas TPU kernels are interpreted. Memory that was not written holds NaNs."""
    interpreter.get, interpreter.swap = _get_any, _swap_any
    jax.clear_caches()
    try:
        with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(uninitialized_memory="nan", **params)):
            yield
    finally:
        interpreter.get, interpreter.swap = _get, _swap
        jax.clear_caches()
