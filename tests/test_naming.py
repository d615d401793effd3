"""New names: the least free number, found without trying all that are taken."""

from __future__ import annotations

from weft.naming import FreshNames


def test_a_name_is_numbered_where_it_is_taken() -> None:
    names = FreshNames(["x"])
    assert [names.fresh("x"), names.fresh("x"), names.fresh("y"), names.fresh("y")] == ["x_2", "x_3", "y", "y_2"]


def test_a_number_that_somebody_chose_is_left_out() -> None:
    names = FreshNames(["x", "x_3"])
    assert [names.fresh("x"), names.fresh("x"), names.fresh("x_3")] == ["x_2", "x_4", "x_3_2"]
    assert names.fresh("x_3", stem="x") == "x_5"


def test_a_released_name_is_given_again() -> None:
    names = FreshNames()
    given = [names.fresh("x") for _ in range(5)]
    for name in given[1:4:2]:
        names.release(name)
    assert [names.fresh("x") for _ in range(3)] == ["x_2", "x_4", "x_6"]
    names.release("x")
    assert names.fresh("x") == "x"


def test_many_names_of_one_stem() -> None:
    class Counted(set[str]):
        asked = 0

        def __contains__(self, name: object) -> bool:
            self.asked += 1
            return super().__contains__(name)

    names = FreshNames()
    names._taken = counted = Counted()
    assert len({names.fresh("x") for _ in range(1000)}) == 1000
    assert counted.asked < 3000
