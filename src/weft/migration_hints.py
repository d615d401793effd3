"""Migration hints: what people who come from other libraries write, and what to write here."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from weft.errors import NoSuchName, WeftError

_LAST = 'wf.einsum("...|...->...i => ...|...->...0", t'
_AXES = (
    '`@` and einsum take axes as they are; wf.einsum splits one by "...|h&d => ...|hd" with d=4, '
    'joins two by "...|hd => ...|h&d", and moves them by "...|ij => ...|ji"'
)
_VALUE = "a tensor is computed by a context: ctx = wf.Context(); ctx[t] is a NumPy array"
_STEP = "code is compiled first: step = ctx.compile(wf.grad_update(loss)); step()"
_TYPE = 'wf.cast(t, "float32")'
_OPERATOR = "Python's operators do it: + - * / ** % // @ < <= > >="
_CONSTANT = "wf.constant(0.0) takes the shape its use needs; wf.data(np.zeros(shape), batch=…) has one"
_DATA = "wf.data(array, batch=1) is a tensor of given values, wf.tensor([…]) one written out"
_LAYER = "a layer is a function under @wf.op, a parameter wf.param"
_RANDOM = 'wf.random_uniform("u", step=n) and wf.random_standard_normal("z", step=n) take the shape their use needs'

#: The functions of weft that others have under the same name.
_FUNCTIONS = (
    "abs acos acosh asin asinh atan atan2 atanh ceil clip cos cosh elu equal erf erfc erfcinv erfcx erfinv exp exp2 "
    "expm1 floor fma gelu isfinite isnan leaky_relu less less_equal log log1p log2 logical_and logical_not logical_or "
    "maximum minimum normcdf normcdfinv not_equal recip recip_sqrt relu round sat01 sigmoid sign silu sin sinh "
    "softplus sqrt tan tanh where argmax argmin cross_entropy log_softmax logsumexp max mean min norm one_hot prod "
    "argsort cummax cumprod cumsum softmax sort std sum var bincount take flip pad repeat roll split tril triu"
)
FUNCTIONS = _FUNCTIONS.split()


def _table(advice: Mapping[str, str]) -> Mapping[str, str]:
    """What to write, by name, from what to write for several names."""
    return {name: fix for names, fix in advice.items() for name in names.split()}


#: Names that are functions of `wf` elsewhere, methods of a tensor, and functions of NumPy.
_ANYWHERE = _table(
    {
        "reduce_sum nansum": "wf.sum(t)",
        "average reduce_mean": "wf.mean(t)",
        "amax reduce_max": "wf.max(t); of two tensors wf.maximum(x, y)",
        "amin reduce_min": "wf.min(t); of two tensors wf.minimum(x, y)",
        "any": _LAST + ', accum="or")',
        "all": _LAST + ', accum="and")',
        "swish": "wf.silu(t)",
        "topk": "values, positions = wf.top_k(t, k)",
        "onehot": "wf.one_hot(ids, n)",
        "matmul dot mm bmm inner linear": "a @ b, or wf.einsum(spec, a, b)",
        "outer tensordot kron": 'wf.einsum("i; j => ij", a, b)',
        "transpose permute swapaxes moveaxis rearrange": "t.T swaps inputs and outputs; " + _AXES,
        "reshape view flatten ravel squeeze unsqueeze expand_dims expand tile": _AXES,
        "cat concatenate hstack append": 'wf.concat(a, b), or wf.einsum("a; b => a^b", a, b)',
        "vstack": "wf.stack(a, b)",
        "clamp": "wf.clip(t, low, high)",
        "pow power square": "t ** 2; for a tensor as exponent wf.exp(y * wf.log(x))",
        "add subtract sub multiply mul divide true_divide div negative neg mod": _OPERATOR,
        "remainder floor_divide greater greater_equal gt ge lt le": _OPERATOR,
        "eq array_equal isclose allclose": "wf.equal(x, y)",
        "ne": "wf.not_equal(x, y)",
        "absolute": "wf.abs(t)",
        "reciprocal": "wf.recip(t)",
        "rsqrt": "wf.recip_sqrt(t)",
        "expit": "wf.sigmoid(t)",
        "astype": _TYPE,
        "rint": "wf.round(t)",
        "fliplr flipud reverse": "t[..., ::-1], or wf.flip(t)",
        "index_select narrow": "t[..., 2:5]",
        **{f"arc{name}": f"wf.a{name}(t)" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
        "arctan2": "wf.atan2(y, x)",
    }
)
_MODULE = _table(
    {
        "zeros full empty zeros_like full_like": _CONSTANT,
        "ones ones_like": _CONSTANT.replace("0.0", "1.0").replace("zeros", "ones"),
        "nll_loss": "wf.cross_entropy(logits, ids)",
        "mse_loss mean_squared_error": 'wf.mean((y - t) ** 2, "...|...->... => 0")',
        "conv2d conv1d conv": 'wf.einsum("...|h=+p, w=+q, c; f, p, q, c => ...|h, w, f", x, k)',
        "max_pool max_pool2d": 'wf.einsum("...|2*h<+p, 2*w<+q, c => ...|h, w, c", x, accum="max", p=2, q=2)',
        "embedding gather": 'wf.take(table, ids), or wf.einsum("v, d; ...|@v => ...|d", table, ids)',
        "scatter scatter_add index_add segment_sum": 'wf.einsum("...|d; ...|@v => v, d", updates, ids, v=n)',
        "range": "wf.arange(n)",
        "identity": "wf.eye(n)",
        "array asarray from_numpy as_tensor Variable placeholder variable": _DATA,
        "Parameter parameter Module Sequential": _LAYER,
        "Linear Dense layers": "blocks of models are in wf.nn: wf.nn.linear(x, o=8)",
        "rand randn random normal_ randint": _RANDOM,
        "multinomial categorical": 'wf.argmax(logits - wf.log(-wf.log(wf.random_uniform("u", step=n)))) draws one; '
        "a model of tokens has model.generate",
        "manual_seed": "wf.seed(0)",
        "no_grad detach stop_grad": "wf.stop_gradient(t)",
        "value_and_grad GradientTape backward": "wf.grad(loss, w), or t.grad after wf.grad_update(loss); " + _STEP,
        "jit compile function run session Session": _STEP,
        "DataLoader Dataset TensorDataset dataloader": "wf.data.batches(x, y, batch_size=32, shuffle=True)",
        "fit Trainer trainer": "wf.train.fit(model, loss, (x, y), epochs=10)",
        "optimizer optimizers SGD Adam AdamW sgd adam adamw": "wf.optim.sgd(loss, lr=0.1), wf.optim.adamw(loss)",
        "float32 float16 float64 int32 bfloat16": 'element types are text: dtype="float32"',
        "inference_mode enable_grad set_grad_enabled": "a gradient is code that is asked for: wf.grad_update(loss)",
        "autocast amp GradScaler": 'wf.default_precision("bfloat16"); options=wf.CompileOptions(products="bfloat16")',
        "autograd": "wf.grad(loss, w), or t.grad after wf.grad_update(loss)",
        "vmap pmap": "data brings batch axes, wf.data(array, batch=1); devices share them by wf.train.data_parallel",
        "distributed DataParallel": "wf.train.data_parallel(wf.Context(devices=2), loss_of, optimise)",
        "Model Input keras models": _LAYER + "; wf.train.fit trains it",
        "functional losses": "functions are under wf: wf.relu, wf.softmax; blocks and losses under wf.nn",
        "metrics callbacks": 'functions of wf.train.fit: metrics={"accuracy": wf.train.accuracy}, callbacks=[print]',
        "jnp lax np": "functions are under wf: wf.exp, wf.einsum, wf.scan; arrays are NumPy's",
        "show imshow hist": "print(ctx.show(t)) shows values in boxes; wf.plot draws curves and functions",
        "utils": "wf.data.batches feeds a step, wf.summary(model) lists layers, wf.save and wf.load keep a state",
        "state_dict load_state_dict": "ctx.state(model), ctx.restore(model, wf.load(path))",
        "device cuda": 'wf.Context() picks the best backend there is, wf.Context("cc") names one',
    }
)
_TENSOR = _table(
    {
        "backward": "weft compiles: " + _STEP.removeprefix("code is compiled first: "),
        "numpy item tolist cpu eval compute realize asnumpy block_until_ready": _VALUE,
        "detach clone copy": "wf.stop_gradient(t) lets no gradient through; tensors are never changed",
        "requires_grad requires_grad_ retain_grad": "wf.require_grad(t); keep=[t.grad] keeps a gradient",
        "size ndim ndims rank numel sizes": "t.dims has its sizes: t.dims.output[0].size",
        "type float half double int long bfloat16": _TYPE,
        "to": f'where it is computed a context says, wf.Context("cuda"); another type is {_TYPE}',
        "cuda device": 'a context says where it is computed, wf.Context("cuda"), and has devices, ctx.device(0)',
        "zero_ add_ mul_ copy_ fill_ sub_ at": "assign under @wf.cd: t[:] = x, t += x",
        "name names": "t.label is what it is called, t.named(…) calls it otherwise",
        "gradient zero_grad": "t.grad; t.zero_grads is code that clears gradients",
        "contiguous": "leave it out: a tensor lies as it is computed",
        "masked_fill": "wf.where(mask, value, t)",
        "mT": '"...|ij => ...|ji" of wf.einsum; t.T swaps inputs and outputs',
        "grad_fn is_leaf retain_graph data": "t.grad is its gradient, after wf.grad_update(loss); ctx[t] its value",
    }
)
_LAYERS = _table(
    {
        "parameters named_parameters weights trainable_variables variables": "model.params",
        "state_dict": "ctx.state(model), or ctx.state(step) with the optimiser; wf.save(path, ctx.state(step))",
        "load_state_dict": "ctx.restore(model, wf.load(path))",
        "forward apply call": "call it: model(x)",
        "fit": "wf.train.fit(model, loss, (x, y), epochs=10)",
        "evaluate predict": "wf.train.evaluate(model, (x, y)), wf.train.predict(model, x)",
        "train eval to cuda cpu": "a layer has no modes and lies on no device",
        "zero_grad": "wf.grad_update(loss) begins with gradients of 0",
        "summary": "print(wf.summary(model))",
        "compile": "wf.train.fit(model, loss, (x, y), optimise=lambda loss: wf.optim.adam(loss, lr=0.001))",
        "save": "wf.save(path, ctx.state(model))",
        "load load_weights": "ctx.restore(model, wf.load(path))",
        "modules children named_modules layers": "print(wf.summary(model)); model['name'] is a part of it",
        "weight kernel": "model['w'], a tensor; ctx[model['w']] is its value",
        "bias": "model['b'], a tensor; ctx[model['b']] is its value",
        "requires_grad_ freeze trainable": "an optimiser learns by patterns of labels (docs/optimisers.md)",
        "half float double": 'wf.default_precision("bfloat16"), before the model is made',
        "generate": "wf.nn.generate(model, prompt, max_new=20), or make the model under @wf.nn.language_model",
    }
)
_OPTIMISERS = _table(
    {
        "lr_scheduler schedule schedules": "a schedule is lr=wf.optim.cosine(n, 0.1, steps=1000)",
        "CosineAnnealingLR cosine_decay_schedule cosine_decay": "wf.optim.cosine(n, 0.1, steps=1000)",
        "StepLR exponential_decay": "wf.optim.step(n, 0.1, every=300)",
        "LinearLR linear_schedule": "wf.optim.linear(n, 0.1, steps=1000)",
        "OneCycleLR": "wf.optim.one_cycle(n, 0.1, steps=1000)",
        "SequentialLR join_schedules": "wf.optim.join(n, [first, second], at=[100])",
        "clip_grad_norm_ clip_grad_norm clip_by_global_norm": "wf.optim.clip_by_norm(loss, 1.0)",
        "clip_grad_value_ clip_grad_value clip": "wf.optim.clip_by_value(loss, 1.0)",
        "MultiSteps apply_every": "wf.optim.accumulate(loss, wf.optim.sgd(loss, lr=0.1), every=4, step=n)",
        "AveragedModel swa_utils ema_params": "wf.optim.ema(loss, decay=0.999)",
        "zero_grad": "wf.grad_update(loss) begins with gradients of 0",
        "apply_updates": "an optimiser is code that updates: wf.seq(wf.grad_update(loss), wf.optim.adam(loss))",
        "Optimizer": "an optimiser of your own is a few lines under @wf.cd (docs/code.md)",
        "chain": "wf.seq(wf.optim.clip_by_norm(loss, 1.0), wf.optim.adamw(loss))",
    }
)


_RUNS = "ctx[t] is the value of a tensor; step = ctx.compile(code), or ctx.function(x, code=…), is called: step()"
_CONTEXT = _table(
    {
        "run execute eval evaluate session forward call": _RUNS,
        "jit trace": "ctx.function(x, returns=y) is a function of arrays",
        "get value values numpy": "ctx[t] is the value of a tensor, a NumPy array",
        "set put assign": "ctx[t] = array sets a parameter, data or a node",
        "save load state_dict": "wf.save(path, ctx.state(step)), ctx.restore(step, wf.load(path))",
        "load_state_dict": "ctx.restore(step, wf.load(path))",
        "fit train": "wf.train.fit(model, loss, (x, y), context=ctx)",
        "grad backward gradient": "wf.grad(loss, w) is a tensor, and ctx[…] its value",
        "sync wait block_until_ready": "ctx.synchronize()",
        "to cuda": 'a context is made for a backend: wf.Context("cuda")',
    }
)
#: Blocks that others have under another name.
_BLOCKS = _table(
    {
        "dense fc": "wf.nn.linear",
        "bcewithlogits bce": "wf.nn.binary_cross_entropy",
        "nll": "wf.nn.cross_entropy, of logits",
        "kldiv": "wf.nn.kl_divergence",
        "smoothl1": "wf.nn.huber",
        "infonce": "wf.nn.contrastive",
        "adaptiveavgpool2d": "wf.nn.global_avg_pool",
        "module sequential modulelist": "a model is a function under @wf.op, which applies layers one after another",
        "parameter": 'a parameter is wf.param("w", o=8)',
        "dataparallel distributeddataparallel": "wf.train.data_parallel(wf.Context(devices=2), loss_of, optimise)",
        "init": 'a parameter says how it begins: wf.param("w", init=wf.kaiming())',
        "utils": "wf.optim.clip_by_norm(loss, 1.0) clips, wf.data.buckets pads sequences",
        "functional f": "functions are under wf: wf.relu, wf.softmax; blocks and losses under wf.nn",
        "flatten identity": "a linear layer takes the whole output row, of any number of axes",
    }
)

_BATCHES = "wf.data.batches(x, y, batch_size=32, shuffle=True) gives batches in each epoch"
_FEEDING = _table(
    {
        "DataLoader dataloader loader Loader Dataset TensorDataset IterableDataset from_tensor_slices": _BATCHES,
        "BatchSampler Sampler RandomSampler shuffle shuffled": _BATCHES,
        "random_split train_test_split train_val_split": "train, test = wf.data.split(x, y, part=0.25)",
        "pad_sequence padded_batch pad": "wf.data.buckets(sequences, batch_size=32) pads batches of like lengths",
        "batch": "wf.data.batches(x, y, batch_size=32)",
        "memmap open_memmap": "wf.data.mapped(path)",
        "ByteLevelBPETokenizer AutoTokenizer": "wf.data.load_tokenizer(path), wf.data.byte_pairs(text, size)",
        "MNIST": "wf.data.mnist()",
    }
)
_FIT = "wf.train.fit(model, loss, (x, y), epochs=10)"
_RUNNING = _table(
    {
        "Trainer trainer train Model compile run train_loop": _FIT,
        "EarlyStopping": _FIT.replace("epochs=10", "validation=test, early_stopping=3"),
        "ModelCheckpoint Checkpoint checkpoint save_checkpoint load_checkpoint save load": _FIT.replace(
            "epochs=10", 'checkpoint="runs/first", resume=True'
        )
        + "; of a step wf.save(path, ctx.state(step))",
        "Callback callbacks": _FIT.replace("epochs=10", "callbacks=[print]"),
        "optimizer Optimizer optim": _FIT.replace("epochs=10", "optimise=lambda loss: wf.optim.adam(loss, lr=0.001)"),
        "zero_grad backward": "wf.train.step(ctx, loss_of, optimise) does all of a step",
        "metrics Accuracy": 'metrics={"accuracy": wf.train.accuracy}',
        "DistributedDataParallel pmap": "wf.train.data_parallel(wf.Context(devices=2), loss_of, optimise)",
        "train_step TrainState": "wf.train.step(ctx, loss_of, optimise)",
        "test validate": "wf.train.evaluate(model, (x, y))",
    }
)


def no_feed(name: str, known: Iterable[str]) -> NoSuchName:
    """`wf.data.name`, which there is not."""
    return _missing(f"wf.data has no `{name}`", "wf.data.", name, known, _FEEDING)


def no_training(name: str, known: Iterable[str]) -> NoSuchName:
    """`wf.train.name`, which there is not."""
    return _missing(f"wf.train has no `{name}`", "wf.train.", name, known, _RUNNING)


def no_name(name: str, known: Iterable[str]) -> NoSuchName:
    """`wf.name`, which there is not."""
    return _missing(f"weft has no `{name}`", "wf.", name, known, _MODULE)


def no_attribute(name: str, known: Iterable[str]) -> NoSuchName:
    """`t.name` of a tensor, which there is not."""
    functions = {function: f"wf.{function}(t)" for function in FUNCTIONS}
    return _missing(f"a tensor has no `{name}`", "t.", name, known, {**functions, **_TENSOR})


def no_context_attribute(name: str, known: Iterable[str]) -> NoSuchName:
    """`ctx.name` of a context, which there is not."""
    return _missing(f"a context has no `{name}`", "ctx.", name, known, _CONTEXT)


def not_called() -> WeftError:
    """`ctx(t)`."""
    return WeftError("a context is not called", fix=_RUNS)


def no_layer_attribute(name: str, known: Iterable[str]) -> NoSuchName:
    """`model.name` of a layer, which there is not."""
    return _missing(f"a layer has no `{name}`", "model.", name, known, _LAYERS)


def no_block(name: str, known: Iterable[str]) -> NoSuchName:
    """`wf.nn.name`, which there is not; others write it in capitals, or with `Loss` at its end."""
    plain = _plain(name).removesuffix("loss")
    own = {_plain(one): f"wf.nn.{one}" for one in known}
    functions = {_plain(one): f"wf.{one}(x)" for one in FUNCTIONS}
    near = difflib.get_close_matches(plain, own, 1)
    fix = own.get(plain) or _BLOCKS.get(plain) or functions.get(plain) or (own[near[0]] if near else _LAYER)
    return NoSuchName(f"wf.nn has no `{name}`", fix=fix if " " in fix else f"write {fix}")


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def no_optimiser(name: str, known: Iterable[str], others: Iterable[str]) -> NoSuchName:
    """`wf.optim.name`, which there is not: of the names there are, some are optimisers."""
    ones, names = list(known), list(others)
    same = [one for one in ones if one == name.lower()]
    fix = f"write wf.optim.{same[0]}(loss, lr=0.1), which is code" if same else _OPTIMISERS.get(name, "")
    if not fix and (close := difflib.get_close_matches(name.lower(), names, 1, 0.75)):
        fix = f"did you mean wf.optim.{close[0]}?"
    own = f"there are {', '.join(ones)}; others are a few lines under @wf.cd (docs/code.md)"
    return NoSuchName(f"wf.optim has no `{name}`", fix=fix or own)


def numpy_refused(function: str, what: str = "a tensor") -> WeftError:
    """A function of NumPy was given something that is still to be computed."""
    own = f"write wf.{function}(…)" if function in FUNCTIONS else _ANYWHERE.get(function, "")
    value = f"np.{function}(ctx[t]) works on its value" if what == "a tensor" else ""
    return WeftError(
        f"np.{function} works on arrays, and {what} is still to be computed", fix="; ".join(filter(None, (own, value)))
    )


def without_bits(sign: str, instead: str) -> Callable[..., NoReturn]:
    """An operator that tensors lack: NumPy's works on bits, and those who write it mean the truth of comparisons."""

    def refused(*_: object) -> NoReturn:
        raise WeftError(f"tensors have no `{sign}`: truths are the numbers 0 and 1", fix=f"write {instead}")

    return refused


def not_pickled(what: str) -> WeftError:
    """Something that belongs to a program is pickled, or copied by way of it."""
    return WeftError(
        f"{what} is neither pickled nor copied: it belongs to the program that is running",
        fix="wf.save(path, ctx.state(step)) saves the values; a program that is built again has them by "
        "ctx.restore(step, wf.load(path))",
    )


def no_accumulation(name: object, known: Iterable[str]) -> WeftError:
    """`accum=name`, which there is not."""
    own = {"sum": "+", "prod": "*", "product": "*", "maximum": "max", "minimum": "min", "any": "or", "all": "and"}
    own |= {"average": "mean", "avg": "mean", "variance": "var", "lse": "logsumexp"}
    if isinstance(name, str) and name in own:
        fix = f'write accum="{own[name]}"'
    else:
        fix = "accumulate with one of " + ", ".join(known) + ", or declare another: wf.monoid(…)"
    return WeftError(f"there is no accumulation {name!r}", fix=fix)


def _missing(what: str, before: str, name: str, known: Iterable[str], own: Mapping[str, str]) -> NoSuchName:
    names = list(known)
    fix = own.get(name) or _ANYWHERE.get(name, "")
    if not fix:
        close = difflib.get_close_matches(name, names, 1, 0.75)
        fix = f"did you mean {before}{close[0]}?" if close else ""
    return NoSuchName(what, fix=fix)
