"""Tables as text in columns: one look, whether a table fits or has to be wrapped."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from channels.tables import WIDTH, _fitting, _wrapped, columns

CELLS = st.text(alphabet="ab 漢字é😀|[]*", max_size=12).map(str.strip)


@given(
    st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=2, max_size=5)),
    st.lists(st.sampled_from(["None", "Left", "Center", "Right"]), max_size=5),
)
@settings(max_examples=150, deadline=None)
def test_a_table_that_fits_looks_as_one_that_is_wrapped(rows: list[list[str]], sides: list[str]) -> None:
    rows[0] = [cell or "head" for cell in rows[0]]
    fitting = _fitting(rows, sides)
    assert fitting in ("", _wrapped(rows, sides))


def test_a_row_may_have_fewer_cells_than_the_head_or_more() -> None:
    assert columns([["a", "b"], ["1"], ["1", "2", "3"]]) == "a │ b\n──┼──\n1 │\n1 │ 2"


def test_what_does_not_fit_is_wrapped() -> None:
    lines = columns([["name", "price"], ["x" * 100, "20"]]).splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= WIDTH
