"""Names of any length and character: valid labels, never alike for two names, unchanged when read back."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from sky_kubernetes import labels

# As apimachinery's validation has it.
VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

TEXT = st.text(max_size=120)


@given(TEXT)
def test_any_text_becomes_a_valid_value(text: str) -> None:
    value = labels.safe(text)
    assert VALUE.fullmatch(value)
    assert len(value) <= 63
    assert all(labels.valid(key, v) for key, v in labels.tag_labels({text: text}).items())


@given(TEXT, TEXT)
def test_two_texts_never_share_a_value(one: str, other: str) -> None:
    assert (labels.safe(one) == labels.safe(other)) is (one == other)


def test_names_alike_in_their_first_sixty_characters_differ() -> None:
    one, other = "x" * 60 + "a" * 20, "x" * 60 + "b" * 20
    assert labels.safe(one) != labels.safe(other)
    assert labels.safe("A.B_c") == "A.B_c", "what is valid stays readable"
    assert labels.safe("trailing-").startswith("trailing-")


def test_a_spoiled_annotation_is_empty_rather_than_an_error() -> None:
    for text in ("{", "[]", '"x"', ""):
        assert labels.annotation({"metadata": {"annotations": {labels.TAGS: text}}}, labels.TAGS) == {}
    assert labels.annotation({"metadata": {}}, labels.TAGS) == {}
