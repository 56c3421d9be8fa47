"""The page in Chromium: no request, no message, tables that sort and filter, hostile names as text, 5,000 nodes."""

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.saved_reports import ALL, LAYERS, SECOND, edited, large, save

from qdqtool.reports.page.write import write_page

pytestmark = pytest.mark.slow(reason="opens pages in Chromium, where it is installed")
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
HOSTILE = "</script><img src=http://127.0.0.1:9/x onerror=document.title='broken'><!--"
USABLE_S = 3.0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    if not CHROMIUM:
        pytest.skip("no Chromium in PATH: apt-get install chromium")
    with api.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A tab that fails the test where a page logs anything or asks for more than itself."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: told.append(request.url) if not request.url.startswith("file:") else None)
    yield page
    context.close()
    assert told == []


def opened(tab: Any, folder: Path, **documents: Any) -> Any:
    write_page(save(folder, **documents), folder / "page.html")
    return drawn(tab, folder)


def drawn(tab: Any, folder: Path) -> Any:
    """Open the page and all its sections, and wait until its graphs are laid out."""
    tab.goto((folder / "page.html").as_uri())
    tab.get_by_role("button", name="Open all sections").click()
    for figure in tab.locator("figure.graph").all():
        figure.locator("svg").wait_for()
    return tab


def first_cells(tab: Any, caption: str) -> list[str]:
    return tab.locator("div.table", has_text=caption).first.locator("tbody th").all_inner_texts()


def test_tables_sort_by_value_with_unknown_ones_last(tab: Any, tmp_path: Path):
    def spread(report: Any) -> None:
        values = {"a": 9.5, "b": 100.0, "c": None, "d": -3.0}
        report["boundaries"] = [
            {**report["boundaries"][0], "tensor": name, "sqnr_db": db} for name, db in values.items()
        ]

    page = opened(tab, tmp_path, check=edited(ALL["check"], spread))
    table = page.locator("div.table", has_text="Largest error in steps first")
    button = table.get_by_role("button", name="SQNR")

    assert first_cells(page, "Largest error in steps first") == ["a", "b", "c", "d"]
    button.focus()
    page.keyboard.press("Enter")
    assert first_cells(page, "Largest error in steps first") == ["d", "a", "b", "c"]
    assert table.get_by_role("columnheader", name="SQNR").get_attribute("aria-sort") == "ascending"
    button.click()
    assert first_cells(page, "Largest error in steps first") == ["b", "a", "d", "c"]
    table.get_by_role("button", name="Tensor").click()
    assert table.locator("th[aria-sort]").count() == 1


def test_a_list_of_models_fits_every_screen_and_leads_to_closed_sections(tab: Any, tmp_path: Path):
    models = [{"model": name, "verdict": "passed", "exit_code": 0, "reasons": []} for name in (HOSTILE, "net.onnx")]
    models = [{**each, "report": {**ALL["check"], "model": each["model"], "model_file": None}} for each in models]
    checks = {"settings": "qdqtool.toml", "verdict": "passed", "exit_code": 0, "models": models}
    write_page(save(tmp_path, checks={"schema_version": 1, **checks}), tmp_path / "page.html")
    tab.goto((tmp_path / "page.html").as_uri())

    assert tab.locator("details[open]").count() == 0
    assert tab.locator("table.models tbody tr").count() == 2
    for width in (1400, 800, 390):
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.locator("header .scroll").evaluate("box => box.scrollWidth <= box.clientWidth")
    tab.get_by_role("link", name="net.onnx").click()
    assert tab.evaluate("location.hash") == "#section-m2-part"


def test_a_filter_keeps_the_rows_that_have_its_text(tab: Any, tmp_path: Path):
    page = opened(tab, tmp_path, **large(30))
    table = page.locator("div.table", has_text="Nodes, those with")
    table.get_by_label("Filter").fill("LAYERS.2")

    expected = [f"/model/layers.{index}/block/Conv" for index in (2, *range(20, 30))]
    assert table.locator("tbody th").all_inner_texts() == expected
    assert table.get_by_role("status").inner_text() == "11 of 30 rows"


def test_the_chart_shows_the_rows_of_its_table(tab: Any, tmp_path: Path):
    page = opened(tab, tmp_path, **large(30))
    table = page.locator("div.table", has_text="Quantizable nodes")
    chart = table.get_by_role("img")

    assert chart.get_attribute("aria-label") == "Share of noise of 31 rows, in the order of the table below"
    drawn = inked(page)
    assert drawn > 1000
    table.get_by_label("Chart").select_option(label="SQNR of worst input")
    table.get_by_label("Filter").fill("layers.2/")
    assert chart.get_attribute("aria-label") == "SQNR of worst input of 1 row, in the order of the table below"
    assert inked(page) != drawn
    box = table.locator(".u-over").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert table.locator("tr.found th").inner_text() == "/model/layers.2/block/Conv"
    assert "/model/layers.2/block/Conv: 22.00 dB" in table.inner_text()


def test_the_graph_has_a_box_for_each_node_in_the_colour_of_its_precision(tab: Any, tmp_path: Path):
    page = opened(tab, tmp_path, **ALL)
    graph = page.locator("figure.graph")

    assert graph.locator("rect").evaluate_all("found => found.map(each => each.getAttribute('class'))") == [
        "quantized",
        "other",
        "float",
    ]
    assert graph.locator("path").evaluate_all("found => found.map(each => each.getAttribute('class'))") == ["plain"] * 2
    assert graph.get_by_role("img").get_attribute("aria-label") == "Graph of 3 nodes"
    assert "quantized: 1" in graph.inner_text()
    tops = [
        box["y"] for box in graph.locator("rect").evaluate_all("all => all.map(each => each.getBoundingClientRect())")
    ]
    assert tops == sorted(set(tops))


def test_the_graph_zooms_to_the_node_that_is_searched(tab: Any, tmp_path: Path):
    page = opened(tab, tmp_path, **large(60))
    graph = page.locator("figure.graph")
    canvas = graph.locator("svg")

    def view() -> list[float]:
        return [float(part) for part in canvas.get_attribute("viewBox").split()]

    graph.get_by_role("button", name="Show all").click()
    whole = view()
    graph.get_by_label("Find node").fill("layers.40/")
    assert graph.get_by_role("status").inner_text().startswith("/model/layers.40/block/Conv (Conv): int8, ")
    assert view()[3] < whole[3] / 2
    box = graph.locator("rect.found").bounding_box()
    frame = canvas.bounding_box()
    assert abs(box["x"] + box["width"] / 2 - frame["x"] - frame["width"] / 2) < 2
    assert abs(box["y"] + box["height"] / 2 - frame["y"] - frame["height"] / 2) < 2
    near = view()
    graph.get_by_role("button", name="Zoom in").click()
    assert view()[2] == pytest.approx(0.7 * near[2])
    canvas.focus()
    page.keyboard.press("-")
    assert view() == pytest.approx(near)
    page.keyboard.press("ArrowDown")
    assert view()[1] > near[1]
    graph.get_by_label("Find node").fill("nothing of that name")
    assert graph.get_by_role("status").inner_text() == "No node has this text."


def test_of_a_large_graph_the_part_around_a_node_is_shown(tab: Any, tmp_path: Path):
    page = opened(tab, tmp_path, **large(5000))
    graph = page.locator("figure.graph")

    assert graph.locator("rect").count() == 150
    assert "Shown are 150 of 5000 nodes." in graph.inner_text()
    graph.get_by_label("Find node").fill("layers.4321/")
    assert graph.locator("rect").count() == 150
    assert graph.locator("rect.found title").text_content().startswith("/model/layers.4321/block/Conv (Conv)")


def opened_two(tab: Any, folder: Path, first: Any, second: Any) -> Any:
    (folder / "second").mkdir(exist_ok=True)
    write_page(save(folder, **first), folder / "page.html", against=save(folder / "second", **second))
    return drawn(tab, folder)


def test_the_graphs_and_tables_of_two_models_work_each_on_its_own(tab: Any, tmp_path: Path):
    page = opened_two(tab, tmp_path, large(40), large(60) | {"sensitivity": SECOND["sensitivity"] | {"mode": "int8"}})
    first, second = (page.locator("figure.graph").nth(at) for at in (0, 1))

    assert [graph.locator("rect").count() for graph in (first, second)] == [40, 60]
    second.get_by_label("Find node").fill("layers.50/")
    assert second.get_by_role("status").inner_text().startswith("/model/layers.50/block/Conv (Conv): int8")
    assert first.locator("rect.found").count() == 0
    tables = page.locator("div.table", has_text="Largest error in steps first")
    tables.nth(1).get_by_label("Filter").fill("layers.4/")
    assert [table.locator("tbody tr").count() for table in (tables.nth(0), tables.nth(1))] == [40, 1]


def test_the_chart_of_layers_that_differ_shows_the_difference(tab: Any, tmp_path: Path):
    one, two = large(8), large(8)
    for report in (one, two):
        report["sensitivity"] = report["sensitivity"] | {"model_file": ALL["quantize"]["model_file"]}
    for effect, share in zip(two["sensitivity"]["nodes"], (0.1, *[0.0] * 7), strict=True):
        effect["noise_share"] = share
    page = opened_two(tab, tmp_path, one, two)
    table = page.locator("div.table", has_text="Layers, those that differ most first")

    choices = [each.replace("\N{NO-BREAK SPACE}", " ") for each in table.locator("option").all_inner_texts()]
    assert choices == [f"{measure}, A \N{MINUS SIGN} B" for measure in ("Share of noise", "SQNR alone")]
    assert table.get_by_role("img").get_attribute("aria-label").startswith("Share of noise")
    assert table.locator("tbody th").all_inner_texts()[0] == "/model/layers.0/block/Conv"
    assert inked(page) > 1000


@pytest.mark.parametrize("link", ["Comparison", "A: net.int8.onnx", "B: net.fp8.onnx"])
def test_the_parts_of_two_models_can_be_reached(link: str, tab: Any, tmp_path: Path):
    page = opened_two(tab, tmp_path, ALL, SECOND)
    page.get_by_role("navigation").get_by_role("link", name=link, exact=True).click()
    box = page.locator("main h2.part", has_text=link).bounding_box()
    assert 0 <= box["y"] < 100


def test_the_name_of_a_tensor_leads_to_the_chart_of_its_own_model(tab: Any, tmp_path: Path):
    page = opened_two(tab, tmp_path, large(5), large(8) | {"sensitivity": SECOND["sensitivity"] | {"mode": "int8"}})
    told = [page.locator("figure.charts[data-kind=ranges] p.facts-line").nth(at) for at in (0, 1)]
    second = page.locator("div.table", has_text="Largest error in steps first").nth(1)
    second.get_by_role("link", name="/model/layers.3/block/Conv_in").click()
    assert [each.inner_text().split(": ")[0] for each in told] == [
        f"/model/layers.{index}/block/Conv_in" for index in (0, 3)
    ]


def test_the_range_of_an_activation_is_drawn_over_its_values(tab: Any, tmp_path: Path):
    page = opened(tab, tmp_path, **ALL)
    figure = page.locator("figure.charts").first

    assert figure.get_by_role("img").get_attribute("aria-label") == (
        "Histogram of the magnitudes of x, logarithmic; its range is 2.5"
    )
    assert figure.locator("p.facts-line").inner_text() == (
        "x: int8, range 2.5 (mse: less squared error), 0.4% clipped. 1,000 values from -3.5 to 4, 46 of them 0."
    )
    cells = figure.locator("tbody tr").evaluate_all("rows => rows.map(row => [...row.cells].map(c => c.textContent))")
    assert cells == [["max", "4", "0%"], ["mse", "2.5", "0.4%"], ["chosen", "2.5", "0.4%"]]
    figure.get_by_text("Every bar as text").click()
    figure.locator("li").first.wait_for()
    assert figure.locator("li").all_inner_texts()[2:5] == [
        "1 to 1.5: 50 values",
        "1.5 to 2: 0 values",
        "2 to 2.5: 0 values",
    ]
    # The red line stands at the range, 2.5 of the 4 units that the axis has.
    (line, bars), frame = page.evaluate(RED_AND_BLUE), figure.locator(".u-over").bounding_box()
    canvas = figure.locator("canvas").bounding_box()
    assert abs(canvas["x"] + line - (frame["x"] + frame["width"] * 2.5 / 4)) < 3
    assert bars > 1000


RED_AND_BLUE = """() => {
  const canvas = document.querySelector("figure.charts canvas");
  const { width, height } = canvas;
  const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const red = Array(width).fill(0);
  let blue = 0;
  for (let at = 0; at < data.length; at += 4) {
    const color = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
    if (color === 0xa40e26) red[(at / 4) % width] += 1;
    if (color === 0x0b5cad) blue += 1;
  }
  return [red.indexOf(Math.max(...red)) / devicePixelRatio, blue];
}"""


def test_the_scales_of_a_weight_are_drawn_by_channel(tab: Any, tmp_path: Path):
    page = opened(tab, tmp_path, **ALL)
    figure = page.locator("figure.charts").nth(1)

    assert figure.get_by_role("img").get_attribute("aria-label") == "Scales of w by channel on axis 0, logarithmic"
    assert figure.locator("p.facts-line").inner_text() == (
        "w: int8, 7 channels on axis 0, 2 in a bar. The largest scale is 25 times the smallest. "
        "All weights are 0 in 1 channel."
    )
    figure.get_by_text("Every bar as text").click()
    figure.locator("li").first.wait_for()
    assert figure.locator("li").all_inner_texts() == [
        "channels 0 to 1: 0.01 to 0.02",
        "channels 2 to 3: 0.002",
        "channels 4 to 5: 0.05, all weights of a channel are 0",
        "channel 6: 0.04",
    ]
    cells = figure.locator("tbody tr").evaluate_all("rows => rows.map(row => [...row.cells].map(c => c.textContent))")
    assert cells == [
        ["largest", "channels 4 to 5", "0.05"],
        ["smallest", "channels 2 to 3", "0.002"],
        ["all weights 0", "channels 4 to 5", "none"],
    ]


def test_a_tensor_is_chosen_by_list_by_text_and_by_its_name_in_a_table(tab: Any, tmp_path: Path):
    page = opened(tab, tmp_path, **large(30))
    figure = page.locator("figure.charts").first
    told = figure.locator("p.facts-line")

    figure.locator("select").focus()
    page.keyboard.press("ArrowDown")
    assert told.inner_text().startswith("/model/layers.1/block/Conv_in: ")
    figure.get_by_label("Find tensor").fill("LAYERS.17/")
    assert told.inner_text().startswith("/model/layers.17/block/Conv_in: ")
    figure.get_by_label("Find tensor").fill("nothing of that name")
    assert figure.get_by_text("No tensor has this text.").is_visible()
    table = page.locator("div.table", has_text="Largest error in steps first")
    table.get_by_role("link", name="/model/layers.9/block/Conv_in").click()
    assert told.inner_text().startswith("/model/layers.9/block/Conv_in: ")
    assert figure.locator("select").evaluate("each => each === document.activeElement")
    assert 0 <= figure.bounding_box()["y"] < 100
    scales = page.locator("figure.charts").nth(1)
    page.get_by_role("link", name="/model/layers.3/block/Conv_weight").click()
    assert scales.locator("p.facts-line").inner_text().startswith("/model/layers.3/block/Conv_weight: ")


def test_without_counts_there_is_no_histogram(tab: Any, tmp_path: Path):
    def given(report: Any) -> None:
        report["activation_ranges"][0].update(values=None, clipped=None, method="given", methods=[], histogram=None)
        report["activation_ranges"][0]["reason"] = ""

    page = opened(tab, tmp_path, quantize=edited(ALL["quantize"], given))
    figure = page.locator("figure.charts").first

    assert figure.locator("canvas").count() == 0
    assert figure.locator("p.facts-line").inner_text() == (
        "x: int8, range 2.5 (given), unknown clipped. Values from -3.5 to 4. "
        "The values were not counted: there is no histogram."
    )


def inked(page: Any) -> int:
    """The number of pixels of the first chart that have the colour of its bars."""
    script = """() => {
      const canvas = document.querySelector("canvas");
      const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      let count = 0;
      for (let at = 0; at < data.length; at += 4) {
        if (data[at] === 0x0b && data[at + 1] === 0x5c && data[at + 2] === 0xad && data[at + 3] === 255) count += 1;
      }
      return count;
    }"""
    return int(page.evaluate(script))


def test_hostile_names_are_text(tab: Any, tmp_path: Path):
    hostile = edited(ALL["check"], lambda it: it["outputs"][0].update(name=HOSTILE))
    page = opened(tab, tmp_path, check=hostile | {"model": f"{HOSTILE}.onnx"})
    assert page.locator("img").count() == 0
    assert HOSTILE in page.locator("div.table", has_text="Outputs against").inner_text()
    assert page.title().endswith(": quantization report")


def test_5000_nodes_are_usable_at_once(tab: Any, tmp_path: Path):
    # Time of the page's main thread on a processor, since other tests keep the machine busy.
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    write_page(save(tmp_path, **large(5000)), tmp_path / "page.html")
    tab.goto((tmp_path / "page.html").as_uri())
    tab.get_by_role("button", name="Open all sections").click()
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    assert 0 < metrics["ScriptDuration"] < metrics["TaskDuration"] < USABLE_S

    table = tab.locator("div.table", has_text="Largest error in steps first")
    table.get_by_label("Filter").fill("layers.4999/")
    assert first_cells(tab, "Largest error in steps first") == ["/model/layers.4999/block/Conv_in"]
    table.get_by_label("Filter").fill("")
    assert table.locator("tbody tr").count() == 200
    table.get_by_role("button", name="Show all rows").click()
    assert table.locator("tbody tr").count() == 5000


def test_a_link_opens_its_section_and_a_graph_is_drawn_when_it_is_opened(tab: Any, tmp_path: Path):
    write_page(save(tmp_path, **ALL), tmp_path / "page.html")
    tab.goto((tmp_path / "page.html").as_uri())
    assert tab.locator("figure.graph svg").count() == 0
    assert not tab.locator("figure.graph").is_visible()
    tab.get_by_role("navigation").get_by_role("link", name="Graph").click()
    tab.locator("figure.graph svg").wait_for()
    assert tab.locator("section > details[open]").count() == 2
    tab.goto((tmp_path / "page.html").as_uri() + "#section-10")
    tab.reload()
    assert tab.get_by_text("2 of 2 agree").is_visible()


def test_a_graph_can_be_read_when_it_is_opened(tab: Any, tmp_path: Path):
    for nodes, width in ((60, 1280), (60, 390)):
        tab.set_viewport_size({"width": width, "height": 800})
        page = opened(tab, tmp_path, **large(nodes))
        canvas = page.locator("figure.graph svg")
        view = [float(part) for part in canvas.get_attribute("viewBox").split()]
        # Letters of names have 9 units: 8 pixels are the least that can be read.
        assert canvas.bounding_box()["width"] / view[2] * 9 >= 8


def test_no_row_of_a_narrow_page_has_empty_lines(tab: Any, tmp_path: Path):
    tab.set_viewport_size({"width": 390, "height": 800})
    page = opened(tab, tmp_path, **ALL)
    height = "each.getBoundingClientRect().height"
    ratio = f"row => {height.replace('each', 'row')} / Math.max(...[...row.cells].slice(0, 2).map(each => {height}))"
    heights = f"rows => rows.map({ratio})"
    for table in page.locator(".table table:not(.prose)").all():
        assert max(table.locator("tbody tr").evaluate_all(heights)) < 1.1
        lines = "cells => Math.max(0, ...cells.map(cell => cell.getBoundingClientRect().height))"
        assert table.locator("tbody td").evaluate_all(lines) < 150
    assert page.locator("table.prose thead").first.is_hidden()


@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_itself_never_scrolls_sideways(width: int, scheme: str, tab: Any, tmp_path: Path):
    tab.set_viewport_size({"width": width, "height": 800})
    tab.emulate_media(color_scheme=scheme)
    page = opened(tab, tmp_path, **ALL)

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground, ink = page.evaluate("(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))")
    assert (brightness(ground) > brightness(ink)) is (scheme == "light")


@pytest.mark.parametrize(("width", "columns"), [(320, 1), (360, 1), (1360, 2)])
def test_two_models_stand_side_by_side_where_there_is_room(width: int, columns: int, tab: Any, tmp_path: Path):
    far = edited(ALL["check"], lambda it: it["data"].update(source=f"/{'a_long_folder_name' * 9}/data.npz"))
    tab.set_viewport_size({"width": width, "height": 800})
    page = opened_two(tab, tmp_path, ALL | {"check": far}, SECOND)
    lefts = page.locator("header .verdict").evaluate_all("all => all.map(each => each.getBoundingClientRect().x)")

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert len(set(lefts)) == columns


def brightness(color: str) -> int:
    return sum(int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(","))


def test_without_scripts_the_tables_are_complete(browser: Any, tmp_path: Path):
    context = browser.new_context(java_script_enabled=False)
    write_page(save(tmp_path, **large(300)), tmp_path / "page.html")
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())

    assert page.locator("div.table", has_text="Largest error in steps first").locator("tbody tr").count() == 300
    context.close()


def test_the_curve_marks_limit_and_chosen_state_and_follows_the_width(tab: Any, tmp_path: Path):
    page = opened(tab, tmp_path, quantize=ALL["quantize"])
    curve = page.locator("figure.curve")
    canvas = curve.locator("canvas")

    assert (
        curve.get_by_role("img").get_attribute("aria-label")
        == "SQNR of the worst output against the cost in float, 4 states"
    )
    assert "limit: 35 dB" in curve.inner_text()
    line, limit, ring = pixels(canvas, (0x0B, 0x5C, 0xAD), (0xA4, 0x0E, 0x26), (0x1B, 0x1F, 0x24))
    assert line > 200
    assert limit > 200
    assert ring > 50
    curve.scroll_into_view_if_needed()
    box = curve.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    assert curve.get_by_role("status").inner_text() == (
        "written model, cost in float 25.00%: 41.5 dB on the 8 selection samples, 40.5 dB measured on hold-out samples"
    )
    wide = canvas.bounding_box()["width"]
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function("wide => document.querySelector('figure.curve canvas').clientWidth < wide", arg=wide)
    light = canvas.element_handle()
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("light => document.querySelector('figure.curve canvas') !== light", arg=light)
    (line,) = pixels(canvas, (0x6C, 0xB2, 0xFF))
    assert line > 200


def pixels(canvas: Any, *colors: tuple[int, int, int]) -> list[int]:
    """The number of pixels of a canvas that have each colour."""
    script = """(canvas, colors) => {
      const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      const counts = colors.map(() => 0);
      for (let at = 0; at < data.length; at += 4) {
        colors.forEach(([red, green, blue], number) => {
          counts[number] += data[at] === red && data[at + 1] === green && data[at + 2] === blue && data[at + 3] === 255;
        });
      }
      return counts;
    }"""
    found: list[int] = canvas.evaluate(script, [list(color) for color in colors])
    return found


def test_a_click_selects_a_whole_command_with_its_quotes(tab: Any, tmp_path: Path):
    check = edited(ALL["check"], lambda it: it.update(model=f"my models/{HOSTILE}.onnx"))
    page = opened(tab, tmp_path, check=check)
    section = page.locator("section", has=page.get_by_role("heading", name="What to try next"))
    command = section.locator("code").first

    assert page.locator("img").count() == 0
    command.click()
    words = shlex.split(page.evaluate("window.getSelection().toString()"))
    assert words[:4] == ["qdqtool", "check", f"my models/{HOSTILE}.onnx", "--baseline"]
    page.set_viewport_size({"width": 320, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_layers_of_an_engine_sort_by_time_and_are_drawn(tab: Any, tmp_path: Path):
    def hostile(report: Any) -> None:
        report["layers"][2].update(name=HOSTILE, milliseconds=None)

    page = opened(tab, tmp_path, layers=edited(LAYERS, hostile))
    table = page.locator("div.table", has_text="Layers, the slowest first")

    assert first_cells(page, "Layers, the slowest first") == ["conv", "copy", HOSTILE]
    table.get_by_role("button", name="Time").click()
    assert first_cells(page, "Layers, the slowest first") == ["copy", "conv", HOSTILE]
    assert inked(page) > 1000
    assert page.locator("img").count() == 0
