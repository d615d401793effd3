"""Generation: applied token by token, a model gives what it gives of the whole sequence."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.nn.generation import GenerationPlan
from weft.nn.prompts import SourceTokens
from weft.nn.sampling import Sampling

IDS = np.random.default_rng(3).integers(0, 11, (2, 8)).astype("int32")


@wf.nn.language_model
def cells(ids: wf.Tensor, *, vocabulary: int) -> wf.Tensor:
    """A model of one's own: an LSTM and a GRU."""
    x = wf.nn.embedding(ids, vocab_size=vocabulary, o=3)
    x, _ = wf.nn.lstm(x, hid_dim=2)
    x, _ = wf.nn.gru(x, hid_dim=2)
    return wf.nn.linear(x, o=vocabulary)


@wf.nn.language_model
def shared(ids: wf.Tensor, *, vocabulary: int) -> wf.Tensor:
    """A model of one's own: one block applied twice, sinusoidal positions, post-norm."""
    x = wf.nn.embedding(ids, vocab_size=vocabulary, o=4)
    x = wf.nn.sinusoidal_positions(x, d_model=4, max_len=16)
    block = wf.nn.decoder_only_block(num_heads=2, d_k=2, d_ff=5)
    return wf.nn.linear(block(block(x)), o=vocabulary)


def tiny_gpt() -> Any:
    return wf.nn.gpt(vocab_size=11, max_len=16, d_model=4, num_layers=2, num_heads=2, label="gpt")


MODELS = {
    "gpt": tiny_gpt,
    "llama": lambda: wf.nn.llama(
        vocab_size=11, d_model=8, num_layers=2, num_heads=4, num_kv_heads=2, d_ff=5, window=3, label="llama"
    ),
    "halves": lambda: wf.nn.llama(
        vocab_size=11, d_model=4, num_layers=1, num_heads=2, d_ff=5, interleaved=False, label="halves"
    ),
    "cells": lambda: cells(vocabulary=11, label="cells"),
    "shared": lambda: shared(vocabulary=11, label="shared"),
}


def in_context(model: Any, backend: str) -> tuple[wf.Context, np.ndarray]:
    """A context with parameters that are not small, and the scores of every position of the whole sequences."""
    ctx, random = wf.Context(backend), np.random.default_rng(5)
    logits = model(wf.data(IDS, batch=2, label="ids"))
    assert logits.dims.array_shape == (2, 8, 11)
    for param in model.params:
        ctx[param] = random.normal(size=param.dims.array_shape, scale=0.7)
    return ctx, ctx[logits]


@pytest.mark.parametrize("name", MODELS)
def test_token_by_token_all_scores_are_those_of_the_whole_sequence(name: str) -> None:
    model = MODELS[name]()
    ctx, whole = in_context(model, "interp")
    generator = wf.nn.Generator(model, ctx, GenerationPlan(batch=2, slots=8, chunk=3))
    for lengths in ((4, 4), (1, 5), (8, 2)):
        prompts = [IDS[row, :length] for row, length in enumerate(lengths)]
        _, scores = next(generator.steps(prompts, Sampling(), 0))
        expected = [whole[row, len(prompt) - 1] for row, prompt in enumerate(prompts)]
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_compiled_it_is_the_same_for_every_position() -> None:
    model = wf.nn.llama(
        vocab_size=11, d_model=8, num_layers=1, num_heads=4, num_kv_heads=2, d_ff=5, window=3, label="llama"
    )
    ctx, whole = in_context(model, "cc")
    generator = wf.nn.Generator(model, ctx, GenerationPlan(batch=2, slots=8, chunk=1))
    for length in range(1, 9):
        _, scores = next(generator.steps([IDS[0, :length], IDS[1, :length]], Sampling(), 0))
        np.testing.assert_allclose(scores, whole[:, length - 1], rtol=1e-4, atol=1e-5)


SOURCES, SOURCE_LENGTHS = IDS[::-1, :5].copy(), np.array([5, 3], "int32")


def translator(positions: str = "learned") -> Any:
    return wf.nn.transformer(
        vocab_size=11,
        num_encoder_layers=1,
        num_decoder_layers=2,
        num_heads=2,
        d_enc=6,
        d_dec=4,
        d_ff=5,
        max_len=16,
        positions=positions,
        label="translator",
    )


@pytest.mark.parametrize(("positions", "backend"), [("learned", "interp"), ("sinusoidal", "interp"), ("none", "cc")])
@pytest.mark.parametrize("padded", [False, True])
def test_from_a_source_all_scores_are_those_of_the_whole_sequences(positions: str, backend: str, padded: bool) -> None:
    """The source is read with the first tokens alone, and not even given later."""
    model, ctx, random = translator(positions), wf.Context(backend), np.random.default_rng(5)
    lengths = SOURCE_LENGTHS if padded else np.array([5, 5], "int32")
    known = {"source_lengths": wf.data(lengths, batch=1)} if padded else {}
    logits = model(wf.data(SOURCES, batch=2), wf.data(IDS, batch=2), **known)
    for param in model.params:
        ctx[param] = random.normal(size=param.dims.array_shape, scale=0.7)
    whole, source = ctx[logits], SourceTokens(SOURCES, lengths)
    generator = wf.nn.Generator(model, ctx, GenerationPlan(batch=2, slots=8, chunk=3, source=5, padded=padded))
    for counts in ((4, 4), (1, 5), (8, 2)):
        prompts = [IDS[row, :count] for row, count in enumerate(counts)]
        _, scores = next(generator.steps(prompts, Sampling(), 0, source))
        expected = [whole[row, len(prompt) - 1] for row, prompt in enumerate(prompts)]
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
    later = [run for (_, first), run in generator._compiled.items() if not first]
    assert all("source" not in [one.name for one in run.signature.arguments] for run in later)
    sources = [one[:length] for one, length in zip(SOURCES, lengths, strict=True)]
    found = model.generate([[1, 2], [3]], source=sources, max_new=4, context=ctx)
    alone = [
        model.generate(one, source=of, max_new=4, context=ctx) for one, of in zip([[1, 2], [3]], sources, strict=True)
    ]
    slow = model.generate([[1, 2], [3]], source=sources, max_new=4, context=ctx, cache=False)
    assert [one.tolist() for one in found] == [one.tolist() for one in alone] == [one.tolist() for one in slow]


def test_prompts_that_are_padded_are_those_that_are_not() -> None:
    model = tiny_gpt()
    ctx, _ = in_context(model, "interp")
    padded, lengths = np.array([[1, 2, 3, 0], [4, 0, 0, 0]]), [3, 1]
    found = model.generate(padded, lengths=lengths, max_new=3, context=ctx)
    wanted = model.generate([[1, 2, 3], [4]], max_new=3, context=ctx)
    assert [one.tolist() for one in found] == [one.tolist() for one in wanted]


def test_a_layer_that_mixes_positions_by_itself_is_noticed() -> None:
    """Once: a model that is right is not tried again."""
    tried = list[int]()

    @wf.nn.language_model
    def mixed(ids: wf.Tensor, *, along: bool) -> wf.Tensor:
        tried.append(1)
        x = wf.nn.embedding(ids, vocab_size=7, o=4)
        return wf.nn.linear(x + wf.cumsum(x, "..., t|d => ...|d") if along else x, o=7)

    ctx, wrong, right = wf.Context("interp"), mixed(along=True, label="mine"), mixed(along=False)
    with pytest.raises(wf.WeftError, match="`mine` mixes tokens in a way that is not known token by token") as refused:
        wrong.generate([1, 2], max_new=4, context=ctx)
    assert "give cache=False" in refused.value.fix
    ids, expected = [1, 2], greedy(wrong, ctx, [1, 2], 6)
    assert wrong.generate(ids, max_new=4, context=ctx, cache=False).tolist() == expected
    tried.clear()
    right.generate([1, 2], max_new=4, context=ctx)
    first = len(tried)
    right.generate([1, 2], max_new=4, context=ctx)
    assert len(tried) == first


def greedy(model: Any, ctx: wf.Context, prompt: list[int], length: int) -> list[int]:
    """The best token after the sequence so far, again and again; what is not there yet is 0."""
    ids = wf.input("ids", b=(1, length), dtype="int32")
    run = ctx.function(ids, returns=model(ids))
    found = list(prompt)
    while len(found) < length:
        scores = run(np.array([found + [0] * (length - len(found))]))
        found.append(int(scores[0, len(found) - 1].argmax()))
    return found[len(prompt) :]


def test_the_best_token_again_and_again() -> None:
    model = MODELS["halves"]()
    ctx, _ = in_context(model, "interp")
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8]]
    expected = [greedy(model, ctx, prompt, 9)[:4] for prompt in prompts]
    found = model.generate(prompts, max_new=4, max_len=9, context=ctx)
    assert [one.tolist() for one in found] == expected
    slow = wf.nn.generate(model, prompts, max_new=4, context=ctx, cache=False, max_len=9)
    assert [one.tolist() for one in slow] == expected
    alone = model.generate(prompts[0], max_new=4, max_len=9)  # in the one context that holds the parameters
    assert (alone.tolist(), alone.dtype) == (expected[0], np.int32)
    stopped = model.generate(prompts, max_new=4, max_len=9, context=ctx, stop=expected[0][2])
    assert stopped[0].tolist() == expected[0][: expected[0].index(expected[0][2])]
    assert [len(one) for one in model.generate(prompts, max_new=4, max_len=7, context=ctx)] == [2 + 1, 2 + 1]


def test_a_generator_is_compiled_once() -> None:
    model = tiny_gpt()
    ctx, _ = in_context(model, "interp")
    for seed in range(3):
        model.generate([1, 2], max_new=2, max_len=8, context=ctx, temperature=1 + seed, seed=seed)
    assert len(model.generators) == 1
    model.generate([1, 2], max_new=2, max_len=8, context=ctx)
    assert len(model.generators) == 2


@wf.nn.language_model
def one_row(ids: wf.Tensor, *, scores: wf.Tensor) -> wf.Tensor:
    """The same scores after every token, whatever came before."""
    return wf.take(scores, ids * 0)


def draws(rows: int, **how: Any) -> list[int]:
    """Tokens drawn with probabilities 0.4, 0.3, 0.2, 0.1."""
    scores = wf.data(np.log(np.array([[0.2, 0.4, 0.1, 0.3]], "float32")), label="scores")
    prompts, ctx = [[0]] * rows, wf.Context("cc")
    found = one_row(scores=scores).generate(prompts, max_new=10, max_len=11, context=ctx, **how)
    return [int(token) for one in found for token in one]


def test_tokens_are_drawn_by_their_probabilities() -> None:
    found = draws(200, temperature=1.0, seed=1)
    shares = [Counter(found)[token] / len(found) for token in range(4)]
    np.testing.assert_allclose(shares, [0.2, 0.4, 0.1, 0.3], atol=0.04)
    assert found == draws(200, temperature=1.0, seed=1)
    assert found != draws(200, temperature=1.0, seed=2)
    cold = draws(200, temperature=0.1, seed=1)
    assert Counter(cold)[1] / len(cold) > 0.9


def test_among_the_best_alone() -> None:
    few = Counter(draws(50, temperature=1.0, top_k=2))
    assert set(few) == {1, 3}
    np.testing.assert_allclose(few[1] / few.total(), 0.4 / 0.7, atol=0.07)
    assert set(draws(50, temperature=1.0, top_p=0.35)) == {1}
    assert set(draws(50, temperature=1.0, top_p=0.75)) == {0, 1, 3}
    assert set(draws(50, temperature=1.0, top_p=0.69)) == {1, 3}
    assert set(draws(50, temperature=1.0, top_p=1.0)) == {0, 1, 2, 3}
    assert set(draws(50, temperature=1.0, top_k=2, top_p=0.5)) == {1}


def test_among_more_than_ten() -> None:
    scores = wf.data(np.arange(20, dtype="float32")[None] / 20, label="scores")
    ctx = wf.Context("interp")
    found = one_row(scores=scores).generate(
        [[0]] * 40, max_new=5, max_len=6, context=ctx, temperature=1.0, top_k=12, cache=False
    )
    assert set(np.ravel(found).tolist()) == set(range(8, 20))


def test_among_more_than_there_are() -> None:
    scores, ctx = wf.data(np.zeros((1, 4), "float32"), label="scores"), wf.Context("interp")
    options = {"max_new": 5, "max_len": 6, "context": ctx, "temperature": 1.0, "seed": 3, "cache": False}
    all_of_them = one_row(scores=scores).generate([[0]] * 8, **options)
    assert np.array_equal(one_row(scores=scores).generate([[0]] * 8, top_k=20, **options), all_of_them)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"temperature": -1.0}, "a temperature is 0, for the best token, or above, not -1.0"),
        ({"temperature": 1.0, "top_k": 0}, "top_k= is how many tokens to draw among, 1 or more, not 0"),
        ({"temperature": 1.0, "top_p": 1.5}, "top_p= is a probability above 0, at most 1, not 1.5"),
        (
            {"top_k": 3},
            "top_k= and top_p= say among which tokens to draw, and at temperature 0 the best one is taken",
        ),
        ({"max_new": 0}, "generate takes a whole number from 1 on for `max_new`, not 0"),
        ({"prompt": []}, "there is no prompt to go on with"),
        ({"prompt": "text"}, "a prompt is of ids, whole numbers, not of text"),
        ({"prompt": ["text", "more"]}, "a prompt is of ids, whole numbers, not of text"),
        ({"prompt": [[1], []]}, "a prompt has at least one token, and this one is of shape (0,)"),
        ({"prompt": [0.5]}, "a prompt is of ids, whole numbers, not float64"),
        (
            {"prompt": [[1, 2]], "lengths": [3]},
            "a prompt of 2 tokens, the rest of them padding, cannot have the length 3",
        ),
        ({"prompt": [[1, 2]], "lengths": [1, 1]}, "lengths say how many tokens each prompt has, and are of shape (2,)"),
        ({"prompt": [[1], [2]], "source": [3]}, "there are 2 prompts and 1 sources"),
        ({"source": "text"}, "a source is of ids, whole numbers, not of text"),
        ({"max_len": 3}, "a prompt of 3 tokens leaves none to be generated of max_len = 3"),
    ],
)
def test_what_cannot_be_generated(given: dict[str, Any], said: str) -> None:
    options = {"prompt": [1, 2, 3], "max_new": 2, "context": wf.Context("interp"), **given}
    with pytest.raises(wf.WeftError) as error:
        tiny_gpt().generate(**options)
    assert error.value.what == said


def test_layers_that_look_ahead_are_refused() -> None:
    @wf.nn.language_model
    def ahead(ids: wf.Tensor, *, part: str) -> Any:
        x = wf.nn.embedding(ids, vocab_size=5, o=4)
        match part:
            case "attention":
                return x + wf.nn.multi_head_attention(x, num_heads=2, d_k=2, label="attention")
            case "mask":
                mask = wf.nn.causal_mask(8)
                return wf.nn.multi_head_attention(x, num_heads=2, d_k=2, causal=True, mask=mask, label="attention")
            case "back":
                return wf.nn.gru(x, hid_dim=5, bidirectional=True, label="gru")[0]
        return wf.nn.gru(x, hid_dim=5)

    def said(part: str) -> wf.WeftError:
        with pytest.raises(wf.WeftError) as error:
            ahead(part=part, label="m").generate([1], max_new=2, context=wf.Context("interp"))
        return error.value

    error = said("attention")
    assert error.what == "`m.attention` attends to what follows as well: it cannot be applied token by token"
    assert error.fix == "causal=True lets each position see those before it"
    assert said("mask").what == "`m.attention` has a mask of whole sequences: it cannot be applied token by token"
    assert said("back").what == "`m.gru` runs along whole sequences: it cannot be applied token by token"
    assert said("pair").what == "`m` gives a tuple, and what goes on is chosen by scores"


def test_which_context_holds_a_model() -> None:
    model = tiny_gpt()
    one, other = wf.Context("interp"), wf.Context("interp")
    model.generate([1], max_new=1, max_len=2, context=one)
    model.generate([1], max_new=1, max_len=2, context=other)
    with pytest.raises(wf.WeftError, match="2 contexts hold parameters of `gpt`") as error:
        model.generate([1], max_new=1, max_len=2)
    assert error.value.fix == "give the one that is meant: context=ctx"


def test_an_ordinary_layer_says_how_to_generate() -> None:
    @wf.op
    def plain(ids: wf.Tensor) -> wf.Tensor:
        return wf.take(wf.param("table", o=(5, 5)), ids)

    model = plain()
    with pytest.raises(AttributeError, match=r"wf\.nn\.generate"):
        model.generate([1], max_new=2)
    assert len(wf.nn.generate(model, [1], max_new=2, context=wf.Context("interp"))) == 2


def test_more_tokens_than_a_model_has_positions_for_are_told_by_its_max_len() -> None:
    model, ctx = tiny_gpt(), wf.Context("interp")
    told = "is {}, and the positions along `max_len` are from 0 to 15"
    with pytest.raises(wf.IndexOutOfBounds) as caught:
        ctx[model(wf.data(np.zeros((1, 18), "int32"), batch=2, label="ids"))]
    assert caught.value.what == "`position[17]` " + told.format(17)
    with pytest.raises(wf.IndexOutOfBounds) as caught:
        model.generate([1, 2], max_new=20, context=ctx)
    assert caught.value.what == "`position[0, 0]` " + told.format(16)


@pytest.mark.parametrize("cache", [True, False])
def test_a_model_of_running_statistics_goes_on_once_it_is_trained(cache: bool) -> None:
    """Training left code that writes them for batches whose length calls decide; a step of generation has no such."""

    @wf.nn.language_model
    def normed(ids: wf.Tensor) -> wf.Tensor:
        x = wf.nn.batch_norm(wf.nn.embedding(ids, vocab_size=11, o=4))
        return wf.nn.linear(x, o=11)

    model, ctx = normed(label="normed"), wf.Context("cc")
    wf.train.fit(model, wf.nn.cross_entropy, (IDS[:, :-1], IDS[:, 1:]), epochs=1, batch_axes=2, context=ctx)
    found = model.generate(IDS[0, :3], max_new=2, cache=cache, context=ctx)
    best = wf.train.predict(model, IDS[:1, 2:3], batch_axes=2, context=ctx).argmax(-1)
    assert found[0] == best[0, 0]
