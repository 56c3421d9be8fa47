"""``qdqtool merge``: its words reach the job."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from qdqtool.cli import command
from qdqtool.jobs import merge as job


def test_shards_and_output_reach_the_job(monkeypatch: pytest.MonkeyPatch):
    seen = []

    def merge_to_file(shards: tuple[Path, ...], output: Path) -> job.MergeReport:
        seen.append((shards, output))
        return job.MergeReport(output=str(output), shards=("a",), method="max", samples=1, tensors=1, unseen=0)

    monkeypatch.setattr(job, "merge_to_file", merge_to_file)
    done = CliRunner().invoke(command, ["merge", "a.json", "b.json", "-o", "r.json"])

    assert (done.exit_code, seen) == (0, [((Path("a.json"), Path("b.json")), Path("r.json"))])
    assert "wrote r.json" in done.output


@pytest.mark.parametrize(
    ("words", "hint"), [(["-o", "r.json"], "Missing argument 'SHARD...'"), (["a.json"], "Missing option '-o'")]
)
def test_missing_words_are_wrong_usage(words: list[str], hint: str):
    done = CliRunner().invoke(command, ["merge", *words])
    assert done.exit_code == 2
    assert hint in done.output
