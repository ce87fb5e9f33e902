"""The operators that a program may use: those of image classifiers, and nothing else.

A program of a member file runs with the rights of the worker, so it gets an allow-list and not a list of what is known
to be harmful. The list has the operators that the classifiers of torchvision and the networks of this project need when
they are scripted, traced or exported, and their close relatives. An entry stands for all overloads of an aten operator,
and for its variant that overwrites its first input (`relu_`). After `run_decompositions` most networks pass as well;
ConvNeXt then has `as_strided` and ViT a fused kernel, which are left out. GoogLeNet and Inception warn when they are
scripted, so they have to be traced or exported.

Left out on purpose:

- Operators that reach out of the program: `from_file` maps a file of any name, to read or to write it; `warn` and
  `prim::Print` write to the worker's log; custom operators are unknown code.
- Uninitialised memory: `empty`, `empty_like`, `new_empty`, `resize_`. The logits could show what the worker
  had there before. `set_` and `as_strided` give a tensor another extent than its own.
- Fused kernels that only a compiler calls: they may rely on the compiler for shapes that fit. So does
  `_native_batch_norm_legit_no_training`, which `run_decompositions` makes of `batch_norm`: with fewer means than
  channels it reads the memory behind them. `models/exported.py` calls `batch_norm` in its place.
- Randomness: `rand`, `bernoulli`, `multinomial`. A certificate rests on a classifier that is one function. The dropouts
  and attention are here because networks have them, but `train` must be false and `dropout_p` zero.
- Loops, calls that cannot be inlined, and attributes that are set (`prim::Loop`, `prim::CallMethod`, `prim::SetAttr`):
  a classifier is a fixed sequence of layers, which ends, and which is the same for every image.

Operators without a tensor among their inputs are allowed where all that they make is a constant (FACTORIES): the
windows of Swin and the positions of MaxViT need them. Some operators take a string (`mode` of `pad`, `approximate` of
`gelu`, `padding` of convolutions, `equation` of `einsum`, `rounding_mode` of `div`). Each is one of a few words that
the kernel compares, never the name of something outside. `tests/unit/test_operators.py` compares the list with the
schemas of torch.
"""

from __future__ import annotations

CONVOLUTIONS = """
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution _convolution _convolution_mode
"""
LINEAR_ALGEBRA = """
    linear matmul mm bmm mv dot addmm addbmm baddbmm addmv einsum tensordot outer linalg_vector_norm norm
    cosine_similarity
"""
NORMS = """
    batch_norm layer_norm native_layer_norm group_norm native_group_norm
    instance_norm rms_norm
"""
ACTIVATIONS = """
    relu relu6 hardtanh hardswish hardsigmoid hardshrink softshrink threshold gelu silu mish elu celu selu leaky_relu
    prelu _prelu_kernel softplus sigmoid log_sigmoid tanh softmax _softmax log_softmax _log_softmax glu erf
"""
POOLING = """
    max_pool1d max_pool2d max_pool3d max_pool2d_with_indices avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool1d
    adaptive_max_pool2d adaptive_max_pool3d
"""
RESAMPLING = """
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_bicubic2d
    _upsample_bilinear2d_aa _upsample_bicubic2d_aa pixel_shuffle pixel_unshuffle channel_shuffle pad constant_pad_nd
    reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d im2col
"""
ATTENTION = """
    scaled_dot_product_attention _native_multi_head_attention
"""
DROPOUTS = "dropout feature_dropout alpha_dropout feature_alpha_dropout"
SHAPES = """
    view view_as _unsafe_view reshape reshape_as flatten unflatten permute transpose t numpy_T adjoint swapaxes swapdims
    movedim moveaxis squeeze unsqueeze expand expand_as broadcast_to repeat repeat_interleave tile cat concat
    concatenate stack hstack vstack split split_with_sizes tensor_split chunk unbind slice select narrow index
    index_select gather take_along_dim roll flip rot90 unfold diagonal tril triu contiguous clone alias detach copy fill
    zero lift_fresh lift_fresh_copy to _to_copy type_as size sym_size numel
    sym_numel dim stride sym_stride slice_scatter select_scatter
"""
ARITHMETIC = """
    add sub rsub subtract mul multiply div divide true_divide floor_divide remainder fmod neg negative abs sign sgn pow
    sqrt rsqrt square reciprocal exp exp2 expm1 log log1p log2 log10 sin cos atan atan2 sinh cosh floor ceil round trunc
    clamp clamp_min clamp_max maximum minimum lerp addcmul addcdiv where masked_fill nan_to_num eq ne lt le gt ge
    isnan isinf isfinite logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor
"""
REDUCTIONS = """
    sum mean prod max min amax amin aminmax var std var_mean std_mean argmax argmin topk sort argsort cumsum any all
    logsumexp count_nonzero
"""
FACTORIES = """
    arange zeros ones full eye linspace scalar_tensor tensor meshgrid zeros_like ones_like full_like new_zeros new_ones
    new_full
"""
CHECKS = "_assert_scalar _assert_tensor_metadata sym_constrain_range_for_size sym_constrain_range"
"""Checks of shapes and dtypes that `torch.export` writes into a program."""
SCRIPT = """
    __getitem__ __contains__ __and__ __or__ __not__ __is__ __isnot__ __round_to_zero_floordiv floordiv len append list
    _set_item Int Float Bool IntImplicit FloatImplicit ScalarImplicit item is_floating_point is_complex
    is_grad_enabled is_autocast_enabled format
"""
"""What TorchScript does with numbers, lists and the texts of its own errors; it has aten operators for them."""

_ATEN = (
    *(CONVOLUTIONS, LINEAR_ALGEBRA, NORMS, ACTIVATIONS, POOLING, RESAMPLING, ATTENTION, DROPOUTS, SHAPES, ARITHMETIC),
    *(REDUCTIONS, FACTORIES, CHECKS, SCRIPT),
)
ATEN = frozenset(" ".join(_ATEN).split())
"""The names of the aten operators of classifiers."""

PRIMITIVES = """
    Constant GetAttr If ListConstruct ListUnpack TupleConstruct TupleUnpack TupleIndex TupleSlice NumToTensor
    Uninitialized RaiseException unchecked_cast unchecked_unwrap_optional dtype device layout shape is_cuda is_cpu
    is_quantized is_nested is_sparse is_mkldnn requires_grad type ndim min max abs
"""
PRIM = frozenset(PRIMITIVES.split())
"""The primitive operators of TorchScript: values, branches, and questions about a tensor.

A branch that raises an error is allowed, because every scripted layer that checks its input has one. The error ends the
certification that caused it, as any other failure of a network does.
"""

SYMBOLIC = frozenset({"getitem", "add", "sub", "mul", "floordiv", "mod", "neg", "eq", "ne", "lt", "le", "gt", "ge"})
"""The functions of Python's `operator` that an exported program may apply to sizes."""

UNREACHED = frozenset({"aten::bernoulli", "aten::warn", "prim::Loop"})
"""Operators that scripted layers have in branches for training; torch never folds one into a constant.

They are refused unless they vanish with these branches when the program is frozen in eval mode. Stochastic depth also
has an `aten::empty`, which is let pass where nothing but `bernoulli_` reads it, and that fills it.
"""

OF_CLASSIFIERS = "the operators of image classifiers, which models/operators.py lists"
"""What a refusal says is accepted."""


def is_allowed(operator: str) -> bool:
    """Whether a program may use an operator of this name, `aten::relu_` or `prim::If`, in whichever overload."""
    namespace, _, name = operator.partition("::")
    return name in {"aten": ATEN, "prim": PRIM}.get(namespace, ()) or (namespace == "aten" and _base(name) in ATEN)


def is_unreached(operator: str) -> bool:
    """Whether a program may have this operator in a branch that only training takes."""
    return _base(operator) in UNREACHED


def _base(name: str) -> str:
    """The name of the operator that does not overwrite its input."""
    return name if name.endswith("__") else name.removesuffix("_")
