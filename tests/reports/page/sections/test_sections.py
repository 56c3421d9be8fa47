"""The order of the sections on the page: what is wrong comes first, what it rests on follows, details come last."""

from qdqtool.reports.page.sections import every_section

ORDER = (
    "Failure",
    "Gates",
    "Model, data and versions",
    "Accuracy of the outputs",
    "Layers",
    "Graph",
    "Quantized tensors",
    "Unquantized nodes",
    "Planned and actual precision",
    "Sizes",
    "Files and digests",
    "Findings",
)


def test_sections_stand_in_this_order():
    titles = [section.title for section in every_section()]
    assert [title for title in titles if title in ORDER] == [*ORDER]


def test_no_two_sections_share_a_place_or_a_title():
    sections = every_section()
    assert len({section.order for section in sections}) == len({section.title for section in sections}) == len(sections)
