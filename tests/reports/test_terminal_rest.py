"""How much of a list is printed."""

from support.printed import printed

from qdqtool.reports.terminal import limit, lists_all, print_rest


def test_a_list_is_cut_unless_all_was_asked_for():
    assert printed(lambda console: console.print(limit(console, 3), lists_all(console))) == "3 False\n"
    assert printed(lambda console: console.print(limit(console, 3), lists_all(console)), verbose=True) == "None True\n"


def test_what_is_left_is_counted_with_the_option_that_lists_it():
    assert printed(print_rest, 4, 4) == ""
    assert printed(print_rest, 6, 4) == "  … and 2 more (-v lists all)\n"
    assert printed(print_rest, 6, 4, what="more of QP101") == "  … and 2 more of QP101 (-v lists all)\n"
    assert printed(print_rest, 6, 4, verbose=True) == ""
