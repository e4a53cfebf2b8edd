"""PyTorch's settings of `torch._dynamo`: they may be set, and change nothing.

`compile`'s own arguments do: `recompile_limit`, `dynamic`.
"""

from __future__ import annotations

accumulated_cache_size_limit = 256
accumulated_recompile_limit = 256
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
compiled_autograd = False
error_on_recompile = False
fail_on_recompile_limit_hit = False
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_level = None
optimize_ddp = True
recompile_limit = 8
suppress_errors = False
verbose = False
